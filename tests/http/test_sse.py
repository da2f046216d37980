"""SSE: whole characters, whole lines, and an end that says so."""

from __future__ import annotations

import base64
import itertools
import json
import time
from collections.abc import Iterator

import pytest

from tests.http.events import Event
from tests.http.wire import Client

JSON = "application/json"
BINARY = "application/octet-stream"


def until_caught_up(events: Iterator[Event]) -> list[Event]:
    """Events up to the first control event that says that the tail is reached."""
    found = []
    for event in events:
        if event.kind != "comment":
            found.append(event)
        if event.kind == "control" and event.json.get("upToDate"):
            return found
    raise AssertionError(f"no upToDate in {found}")


def text_of(events: list[Event]) -> str:
    return "".join(event.data for event in events if event.kind == "data")


def all_text(client: Client, target: str) -> str:
    """The data of a closed stream, as an event parser gives it."""
    wire, _, events = client.listen(f"{target}?offset=-1&live=sse")
    with wire:
        return text_of([event for event in events if event.kind != "comment"])


def test_the_events_of_a_read_and_their_exact_form(client: Client, stream: str) -> None:
    made = client.made(stream, body="hello")
    wire, head, events = client.listen(f"{stream}?offset=-1&live=sse")
    with wire:
        assert (head.status, head.get("Content-Type")) == (200, "text/event-stream")
        assert head.get("Cache-Control") == "no-cache"
        data, control = until_caught_up(events)
    assert data.raw == b"event: data\ndata:hello"
    assert control.raw.startswith(b"event: control\ndata:{")
    assert control.id == control.json["streamNextOffset"] == made.offset
    assert control.json["streamCursor"].isdigit()
    assert control.json["upToDate"] is True
    assert "streamClosed" not in control.json


def test_an_append_is_an_event_as_soon_as_it_is_acknowledged(client: Client, stream: str) -> None:
    client.made(stream)
    wire, _, events = client.listen(f"{stream}?offset=now&live=sse")
    with wire:
        assert text_of(until_caught_up(events)) == ""
        for text in ("one", "two"):
            end = client.added(stream, text).offset
            data, control = until_caught_up(events)
            assert (data.data, control.id) == (text, end)


def test_json_events_are_arrays(client: Client, stream: str) -> None:
    client.made(stream, JSON, '[1,{"a":"\\n"}]')
    wire, head, events = client.listen(f"{stream}?offset=-1&live=sse")
    with wire:
        assert head.get("Stream-SSE-Data-Encoding") is None
        assert text_of(until_caught_up(events)) == '[1,{"a":"\\n"}]'
        client.added(stream, "[2,3]", JSON)
        assert text_of(until_caught_up(events)) == "[2,3]"


def test_binary_events_are_base64_and_the_head_says_so(client: Client, stream: str) -> None:
    body = bytes(range(256)) * 3
    client.made(stream, BINARY, body)
    wire, head, events = client.listen(f"{stream}?offset=-1&live=sse")
    with wire:
        assert head.get("Stream-SSE-Data-Encoding") == "base64"
        assert base64.b64decode(text_of(until_caught_up(events)), validate=True) == body


@pytest.mark.parametrize(
    "text", [" one", "  two", " a\n  b\n", "\n", "\n\n", " ", "data: x", ":comment", "\tt"]
)
def test_spaces_and_line_feeds_survive_a_parser(client: Client, stream: str, text: str) -> None:
    client.made(stream, body=text, headers={"Stream-Closed": "true"})
    assert all_text(client, stream) == text


@pytest.mark.parametrize("text", ["a\rb", "a\r\nb", "a\n\rb", "\r", "\r\r\n\n", "id: 5\r\revent: x"])
def test_every_line_break_splits_a_line(client: Client, stream: str, text: str) -> None:
    """Nothing of a stream can be taken for a field of the event stream."""
    client.made(stream, body=text, headers={"Stream-Closed": "true"})
    wire, _, events = client.listen(f"{stream}?offset=-1&live=sse")
    with wire:
        data, control = list(events)
    assert b"\r" not in data.raw
    assert data.data == text.replace("\r\n", "\n").replace("\r", "\n")
    assert data.id is None
    assert control.json["streamClosed"] is True


def test_a_character_split_across_appends_is_held_back_until_it_is_whole(client: Client, stream: str) -> None:
    client.made(stream)
    wire, _, events = client.listen(f"{stream}?offset=now&live=sse")
    with wire:
        until_caught_up(events)
        whole = "aä€😀z".encode()
        for byte in whole:
            client.added(stream, bytes([byte]))
        seen = ""
        while "z" not in seen:
            seen += text_of(until_caught_up(events))
    assert seen == whole.decode()


def test_half_a_character_in_the_past_is_held_back_too(client: Client, stream: str) -> None:
    client.made(stream, body="a\xc3".encode("latin-1"))
    wire, _, events = client.listen(f"{stream}?offset=-1&live=sse")
    with wire:
        caught_up = until_caught_up(events)
        assert text_of(caught_up) == "a"
        client.added(stream, b"\xa4!")
        assert text_of(until_caught_up(events)) == "ä!"
    assert caught_up[-1].id is not None
    resumed = client.get(f"{stream}?offset={caught_up[-1].id}")
    assert resumed.body == "ä!".encode(), "who resumes from the control event gets the whole character"


def test_half_a_character_is_replaced_only_at_closure(client: Client, stream: str) -> None:
    client.made(stream, body=b"a\xe2\x82")
    wire, _, events = client.listen(f"{stream}?offset=-1&live=sse")
    with wire:
        assert text_of(until_caught_up(events)) == "a"
        client.closed(stream)
        *data, control = until_caught_up(events)
    assert text_of(data).strip("\ufffd") == "" and data
    assert control.json["streamClosed"] is True


def test_bytes_that_are_no_text_are_replaced(client: Client, stream: str) -> None:
    client.made(stream, body=b"a\xff\xfeb", headers={"Stream-Closed": "true"})
    assert all_text(client, stream) == "a\ufffd\ufffdb"


@pytest.mark.parametrize("kind", ["text/plain", JSON, BINARY])
def test_a_long_past_is_cut_and_only_its_last_event_is_up_to_date(
    client: Client, stream: str, kind: str
) -> None:
    text = "ä€😀" * 100_000
    body = json.dumps([text[:900]] * 400, ensure_ascii=False) if kind == JSON else text
    client.made(stream, kind, body)
    wire, _, events = client.listen(f"{stream}?offset=-1&live=sse")
    with wire:
        found = until_caught_up(events)
    assert [event.kind for event in found] == ["data", "control"] * (len(found) // 2)
    data = found[::2]
    assert 2 <= len(data) <= 16
    assert not any(event.json.get("upToDate") for event in found[1:-1:2])
    if kind == JSON:
        assert list(itertools.chain.from_iterable(event.json for event in data)) == json.loads(body)
    elif kind == BINARY:
        assert b"".join(base64.b64decode(event.data) for event in data).decode() == text
    else:
        assert "".join(event.data for event in data) == text
    resumed = client.get(f"{stream}?offset={found[1].id}")
    assert resumed.status == 200, "every control event is a place to resume from"


def test_the_last_append_comes_before_the_word_that_the_stream_is_closed(client: Client, stream: str) -> None:
    client.made(stream)
    wire, _, events = client.listen(f"{stream}?offset=now&live=sse")
    with wire:
        until_caught_up(events)
        client.added(stream, "the end", headers={"Stream-Closed": "true"})
        data, control = [event for event in events if event.kind != "comment"]
        assert data.data == "the end"
        assert (control.json["streamClosed"], control.json["upToDate"]) == (True, True)
        assert "streamCursor" not in control.json


def test_a_browser_resumes_from_its_last_event_whatever_the_address_says(client: Client, stream: str) -> None:
    offset = client.made(stream, body="old").offset
    client.added(stream, "new")
    wire, _, events = client.listen(f"{stream}?offset=-1&live=sse", {"Last-Event-ID": offset})
    with wire:
        assert text_of(until_caught_up(events)) == "new"


def test_a_browser_at_the_end_of_a_closed_stream_is_told_to_stop(client: Client, stream: str) -> None:
    client.made(stream, body="all")
    end = client.closed(stream).offset
    assert client.get(f"{stream}?offset=-1&live=sse", {"Last-Event-ID": end}).status == 204
    wire, head, events = client.listen(f"{stream}?offset={end}&live=sse")
    with wire:
        assert head.status == 200
        assert [event.json["streamClosed"] for event in events] == [True]


def test_a_bad_last_event_is_400(client: Client, stream: str) -> None:
    client.made(stream)
    assert client.get(f"{stream}?offset=-1&live=sse", {"Last-Event-ID": "garbage"}).status == 400


@pytest.mark.parametrize("successor", [False, True])
def test_deletion_ends_the_events_whoever_comes_after(client: Client, stream: str, successor: bool) -> None:
    client.made(stream, body="old")
    wire, _, events = client.listen(f"{stream}?offset=-1&live=sse")
    with wire:
        until_caught_up(events)
        client.delete(stream)
        if successor:
            client.made(stream, body="another stream's")
        assert [event for event in events if event.kind != "comment"] == []


def test_a_quiet_connection_gets_comments_and_ends_after_its_time(native: Client, stream: str) -> None:
    native.made(stream)
    began = time.monotonic()
    wire, _, events = native.listen(f"{stream}?offset=now&live=sse")
    with wire:
        kinds = [event.kind for event in events]
        assert wire.request("GET", "/healthz").status == 200, "it ended cleanly"
    assert 3 < time.monotonic() - began < 7
    assert kinds[0] == "control"
    assert kinds.count("comment") >= 2


def test_max_bytes_does_not_matter(client: Client, stream: str) -> None:
    client.made(stream, body="hello")
    wire, _, events = client.listen(f"{stream}?offset=-1&live=sse&max_bytes=1")
    with wire:
        assert text_of(until_caught_up(events)) == "hello"
