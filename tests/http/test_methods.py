"""Methods, and what HTTP offers that streams have no use for."""

from __future__ import annotations

import gzip

import pytest

from tests.http.wire import Client

STREAM_METHODS = {"GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS"}
PROTOCOL_HEADERS = [
    "Authorization",
    "Content-Type",
    "If-Match",
    "If-None-Match",
    "Last-Event-ID",
    "Stream-Seq",
    "Stream-TTL",
    "Stream-Expires-At",
    "Stream-Closed",
    "Stream-Forked-From",
    "Stream-Fork-Offset",
    "Stream-Fork-Sub-Offset",
    "Producer-Id",
    "Producer-Epoch",
    "Producer-Seq",
]
EXPOSED_HEADERS = [
    "Stream-Next-Offset",
    "Stream-Cursor",
    "Stream-Up-To-Date",
    "Stream-Closed",
    "Stream-TTL",
    "Stream-Expires-At",
    "Stream-SSE-Data-Encoding",
    "Stream-Earliest-Offset",
    "Stream-Snapshot-Offset",
    "Producer-Epoch",
    "Producer-Seq",
    "Producer-Expected-Seq",
    "Producer-Received-Seq",
    "Feed-Next-Sequence",
    "Feed-Up-To-Date",
    "ETag",
    "Location",
    "Retry-After",
    "WWW-Authenticate",
]


def names(value: str) -> set[str]:
    return {name.strip() for name in value.split(",")}


@pytest.mark.parametrize("path", ["/healthz", "/readyz/local", "STREAM", "/v1/stream/nowhere", "/nowhere"])
def test_head_works_wherever_get_does(client: Client, stream: str, path: str) -> None:
    client.made(stream, body="hello")
    target = stream if path == "STREAM" else path
    get, head = client.get(target), client.head(target)
    assert head.status == get.status
    assert head.body == b""
    assert head.get("Content-Type") == get.get("Content-Type")
    assert head.get("Content-Length") in (None, get.get("Content-Length"))


def test_the_next_request_after_a_head_is_understood(client: Client, stream: str) -> None:
    """No body, whatever its length header says."""
    with client.wire() as wire:
        assert wire.request("HEAD", stream).status == 404
        assert wire.request("HEAD", "/healthz").status == 200
        assert wire.request("GET", "/healthz").body == b"ok\n"


@pytest.mark.parametrize("method", ["PATCH", "TRACE", "PROPFIND", "SEARCH"])
def test_a_method_that_streams_do_not_have_is_405_with_allow(
    client: Client, stream: str, method: str
) -> None:
    client.made(stream, body="hello")
    answer = client(method, stream)
    assert (answer.status, answer.code) == (405, "method_not_allowed")
    assert names(answer.need("Allow")) == STREAM_METHODS
    assert client.get(stream).body == b"hello"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_the_health_routes_are_for_reading(client: Client, method: str) -> None:
    answer = client(method, "/healthz")
    assert answer.status == 405
    assert names(answer.need("Allow")) == {"GET", "HEAD", "OPTIONS"}


def test_trace_echoes_nothing(client: Client, stream: str) -> None:
    answer = client("TRACE", stream, {"Authorization": "Bearer secret-token"})
    assert b"secret-token" not in answer.body


def test_connect_is_refused(native: Client) -> None:
    with native.wire() as wire:
        wire.send(b"CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere:443\r\n\r\n")
        assert wire.answer().status in (400, 405)


def test_a_method_that_nobody_knows_is_refused(native: Client, stream: str) -> None:
    native.made(stream, body="hello")
    for method in ("BREW", "get", "GETGET"):
        with native.wire() as wire:
            answer = wire.request(method, stream)
            assert answer.status in (400, 405, 501), method
            assert "error" in answer.json
    assert native.get(stream).body == b"hello"


@pytest.mark.parametrize("target", ["/v1/stream/any", "/nowhere/at/all", "/healthz"])
def test_options_is_answered_with_what_a_browser_may_do(client: Client, target: str) -> None:
    asked = {
        "Origin": "https://app.example",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "producer-id,if-none-match",
    }
    answer = client("OPTIONS", target, asked)
    assert answer.status == 204
    assert names(answer.need("Access-Control-Allow-Methods")) >= STREAM_METHODS
    assert names(answer.need("Access-Control-Allow-Headers")) >= set(PROTOCOL_HEADERS)
    assert answer.need("Access-Control-Max-Age").isdigit()
    assert answer.get("Access-Control-Allow-Origin") == "*"


def test_options_of_the_whole_server_is_answered(native: Client) -> None:
    assert native("OPTIONS", "*").status == 204


def test_only_options_may_ask_about_the_whole_server(native: Client) -> None:
    for method in ("GET", "PUT", "POST", "DELETE"):
        assert native(method, "*").status in (400, 404, 405), method


def test_every_answer_exposes_the_protocols_headers_by_name(client: Client, stream: str) -> None:
    client.made(stream)
    wire, live, _ = client.listen(f"{stream}?offset=-1&live=sse")
    wire.close()
    for answer in (client.get(stream), client.get("/nowhere"), client.post(stream, ""), live):
        exposed = names(answer.need("Access-Control-Expose-Headers"))
        assert exposed >= set(EXPOSED_HEADERS)
        assert "*" not in exposed
        assert answer.get("Access-Control-Allow-Origin") == "*"
        assert answer.get("X-Content-Type-Options") == "nosniff"
        assert answer.get("Cross-Origin-Resource-Policy") == "cross-origin"


def test_range_is_ignored(client: Client, stream: str) -> None:
    client.made(stream, body="hello")
    answer = client.get(stream, {"Range": "bytes=1-2"})
    assert (answer.status, answer.body) == (200, b"hello")
    assert answer.get("Content-Range") is None


@pytest.mark.parametrize("coding", ["gzip", "br", "gzip, identity", "deflate"])
def test_a_compressed_body_is_415(client: Client, stream: str, coding: str) -> None:
    body = gzip.compress(b"hello")
    refused = client.put(stream, body=body, headers={"Content-Encoding": coding})
    assert (refused.status, refused.code) == (415, "unsupported_encoding")
    assert client.head(stream).status == 404
    client.made(stream)
    assert client.post(stream, body, headers={"Content-Encoding": coding}).status == 415
    assert client.get(stream).body == b""


def test_the_identity_coding_is_no_coding(client: Client, stream: str) -> None:
    client.made(stream)
    client.added(stream, "hello", headers={"Content-Encoding": "identity"})
    assert client.get(stream).body == b"hello"


def test_accept_never_refuses(client: Client, stream: str) -> None:
    client.made(stream, body="hello")
    assert client.get(stream, {"Accept": "image/png"}).status == 200
    wire, head, _ = client.listen(f"{stream}?offset=-1&live=sse", {"Accept": "application/json"})
    with wire:
        assert (head.status, head.get("Content-Type")) == (200, "text/event-stream")


# --- HTTP/1.0 -----------------------------------------------------------------------------------


def old(target: str, headers: str = "") -> bytes:
    return f"GET {target} HTTP/1.0\r\n{headers}\r\n".encode()


def test_http_1_0_needs_no_host_and_closes(native: Client, stream: str) -> None:
    native.made(stream, body="hello")
    with native.wire() as wire:
        wire.send(old(stream))
        answer = wire.answer()
        assert (answer.status, answer.body) == (200, b"hello")
        assert answer.get("Transfer-Encoding") is None
        assert wire.ended()


def test_http_1_0_is_told_that_its_connection_ends(native: Client) -> None:
    with native.wire() as wire:
        wire.send(old("/healthz", "Connection: keep-alive\r\n"))
        answer = wire.answer()
        assert (answer.body, answer.get("Connection")) == (b"ok\n", "close")
        assert wire.ended()


def test_http_1_0_is_never_answered_chunked(native: Client, stream: str) -> None:
    native.made(stream, body="hello")
    with native.wire() as wire:
        wire.send(old(f"{stream}?offset=-1&live=sse", "Connection: keep-alive\r\n"))
        head = wire.head()
        assert head.get("Transfer-Encoding") is None
        assert head.get("Content-Length") is None
        native.closed(stream)
        events = [event for event in wire.events(head) if event.kind != "comment"]
        assert events[0].data == "hello"
        assert events[-1].json["streamClosed"] is True
        assert wire.ended(), "its end is the end of the connection"
