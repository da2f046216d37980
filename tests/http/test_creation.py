"""PUT, and how long what it makes lives."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.http.wire import Client


def at(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def test_location_is_absolute_and_the_requests_path_byte_for_byte(client: Client, stream: str) -> None:
    target = f"{stream}%2E%61/%C3%a4"
    made = client.put(target)
    assert made.status == 201
    assert made.get("Location") == f"http://127.0.0.1:{client.server.port}{target}"


def test_location_begins_with_the_host_that_was_asked(native: Client, stream: str) -> None:
    with native.wire() as wire:
        wire.send(f"PUT {stream} HTTP/1.1\r\nHost: streams.example:8443\r\n\r\n".encode())
        assert wire.answer().get("Location") == f"http://streams.example:8443{stream}"


def test_location_leaves_the_query_out(client: Client, stream: str) -> None:
    assert client.put(f"{stream}?cache=no").need("Location").endswith(stream)


def test_a_repeated_put_is_200_and_changes_nothing(client: Client, stream: str) -> None:
    made = client.made(stream, body="hello")
    again = client.put(stream, body="ignored")
    assert again.status == 200
    assert again.offset == made.offset
    assert again.get("ETag") == made.get("ETag")
    assert client.get(stream).body == b"hello"


@pytest.mark.parametrize("kind", ["Text/Plain; charset=UTF-8", "application/JSON", "image/svg+xml;a=b"])
def test_put_answers_with_the_streams_own_content_type(client: Client, stream: str, kind: str) -> None:
    assert client.made(stream, kind).get("Content-Type") == kind
    again = client.put(stream, kind.partition(";")[0].lower())
    assert (again.status, again.get("Content-Type")) == (200, kind)
    assert client.head(stream).get("Content-Type") == kind
    assert client.get(stream).get("Content-Type") == kind


def test_no_charset_is_added(client: Client, stream: str) -> None:
    assert client.made(stream, "text/plain").get("Content-Type") == "text/plain"


def test_the_content_type_is_octet_stream_when_none_is_given(client: Client, stream: str) -> None:
    assert client("PUT", stream).get("Content-Type") == "application/octet-stream"
    assert client.put(stream, "application/octet-stream").status == 200
    assert client.put(stream, "text/plain").status == 409


def test_a_stream_can_be_made_closed_with_its_content(client: Client, stream: str) -> None:
    made = client.made(stream, body="all", headers={"Stream-Closed": "true"})
    assert made.get("Stream-Closed") == "true"
    read = client.get(stream)
    assert (read.body, read.get("Stream-Closed")) == (b"all", "true")
    assert client.put(stream, headers={"Stream-Closed": "true"}).status == 200
    assert client.post(stream, "more").status == 409


def test_an_empty_array_makes_an_empty_stream(client: Client, stream: str) -> None:
    client.made(stream, "application/json", "[]")
    assert client.get(stream).body == b"[]"


def test_producer_headers_and_stream_seq_are_ignored_on_put(client: Client, stream: str) -> None:
    headers = {"Producer-Id": "p", "Producer-Epoch": "nonsense", "Stream-Seq": ""}
    assert client.put(stream, headers=headers).status == 201


def test_put_with_if_match_needs_the_stream_and_its_state(client: Client, stream: str) -> None:
    assert client.put(stream, headers={"If-Match": "*"}).status == 412
    assert client.head(stream).status == 404
    etag = client.made(stream).need("ETag")
    assert client.put(stream, headers={"If-Match": etag}).status == 200
    assert client.put(stream, headers={"If-Match": "*"}).status == 200
    client.added(stream, "hello")
    refused = client.put(stream, headers={"If-Match": etag})
    assert refused.status == 412
    assert refused.get("ETag") == client.head(stream).get("ETag")


def test_if_match_cannot_revive_a_deleted_stream(client: Client, stream: str) -> None:
    etag = client.made(stream).need("ETag")
    assert client.delete(stream).status == 204
    assert client.put(stream, headers={"If-Match": etag}).status == 412
    assert client.made(stream).need("ETag") != etag


# --- expiry -------------------------------------------------------------------------------------


def expired(client: Client, target: str) -> None:
    answer = client.head(target)
    assert answer.status == 404, answer
    assert client.get(target).status == 404
    assert client.post(target, "x").status == 404
    assert client.delete(target).status == 404


def test_a_ttl_of_zero_makes_a_stream_that_has_expired(client: Client, stream: str) -> None:
    client.made(stream, headers={"Stream-TTL": "0"})
    expired(client, stream)
    client.made(stream)


def test_an_expiry_in_the_past_makes_a_stream_that_has_expired(client: Client, stream: str) -> None:
    client.made(stream, headers={"Stream-Expires-At": "2001-01-01T00:00:00Z"})
    expired(client, stream)


def test_a_ttl_is_shown_verbatim_and_compared(client: Client, stream: str) -> None:
    client.made(stream, headers={"Stream-TTL": "3600"})
    assert client.head(stream).get("Stream-TTL") == "3600"
    assert client.put(stream, headers={"Stream-TTL": "3600"}).status == 200
    assert client.put(stream, headers={"Stream-TTL": "3601"}).status == 409
    assert client.put(stream).status == 409


def test_an_expiry_is_compared_as_an_instant(client: Client, stream: str) -> None:
    client.made(stream, headers={"Stream-Expires-At": "2099-01-01T01:00:00+01:00"})
    for same in ("2099-01-01T00:00:00Z", "2098-12-31t23:00:00.000-01:00"):
        assert client.put(stream, headers={"Stream-Expires-At": same}).status == 200, same
    assert client.put(stream, headers={"Stream-Expires-At": "2099-01-01T00:00:01Z"}).status == 409


def test_appends_and_reads_restart_the_window_and_head_does_not(client: Client, stream: str) -> None:
    """Four times 0.6 s in a window of 2 s, then 2.3 s with nothing but HEADs."""
    client.made(stream, headers={"Stream-TTL": "2"})
    for turn in range(4):
        time.sleep(0.6)
        answer = client.post(stream, "x") if turn % 2 else client.get(f"{stream}?offset=now")
        assert answer.status in (200, 204), turn
    deadline = time.monotonic() + 2.3
    while time.monotonic() < deadline:
        last = client.head(stream).status
        time.sleep(0.3)
    assert last == 404
    expired(client, stream)


def test_refused_requests_restart_the_window_too(client: Client, stream: str) -> None:
    """Whatever its status: somebody is there."""
    client.made(stream, headers={"Stream-TTL": "1"})
    for turn in range(6):
        time.sleep(0.4)
        answer = client.get(f"{stream}?offset=99") if turn % 2 else client.post(stream, "x", "text/html")
        assert answer.status in (400, 409), (turn, answer)
    assert client.get(stream).status == 200


def test_requests_that_are_wrong_in_themselves_restart_the_window_too(client: Client, stream: str) -> None:
    """Amendments §7: every GET or POST that finds the stream, whatever its status."""
    text = {"Content-Type": "text/plain"}
    wrong: list[tuple[str, str, dict[str, str], str]] = [
        ("GET", "?offset=abc", {}, ""),
        ("GET", "?offset=0&live=no", {}, ""),
        ("POST", "", text | {"Producer-Id": "p"}, "x"),
        ("POST", "", text, ""),
        ("POST", "", {}, "x"),
        ("POST", "", text | {"Content-Encoding": "gzip"}, "x"),
    ]
    for number in range(len(wrong)):
        client.made(f"{stream}-{number}", headers={"Stream-TTL": "1"})
    for _ in range(4):
        time.sleep(0.4)
        for number, (method, query, headers, body) in enumerate(wrong):
            answer = client(method, f"{stream}-{number}{query}", headers, body)
            assert answer.status in (400, 415), (number, answer)
    assert [client.head(f"{stream}-{number}").status for number in range(len(wrong))] == [200] * len(wrong)


def test_a_put_does_not_restart_the_window(client: Client, stream: str) -> None:
    client.made(stream, headers={"Stream-TTL": "1"})
    statuses = []
    for _ in range(4):
        time.sleep(0.4)
        statuses.append(client.put(stream, headers={"Stream-TTL": "1"}).status)
    assert statuses[0] == 200
    assert 201 in statuses, "it expired under the PUTs, and was made anew"


def test_a_held_live_read_keeps_the_stream_alive(client: Client, stream: str) -> None:
    client.made(stream, headers={"Stream-TTL": "1"})
    wire, head, events = client.listen(f"{stream}?offset=-1&live=sse")
    with wire:
        assert head.status == 200
        time.sleep(2.6)
        client.added(stream, "still here")
        assert next(event for event in events if event.kind == "data").data == "still here"


def test_an_expiry_is_never_extended(client: Client, stream: str) -> None:
    text = at(1.5)
    client.made(stream, headers={"Stream-Expires-At": text})
    assert client.head(stream).get("Stream-Expires-At") == text
    deadline = time.monotonic() + 2.2
    while time.monotonic() < deadline:
        client.post(stream, "x")
        time.sleep(0.2)
    expired(client, stream)
