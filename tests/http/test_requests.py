"""The native door: where a request ends and the next one begins."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.http.wire import Client, Wire

PLAIN = {"Content-Type": "text/plain"}


def chunked(target: str, body: bytes, method: str = "POST") -> bytes:
    head = f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n"
    return head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + body


def plain(target: str, body: bytes, method: str = "POST") -> bytes:
    head = f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


def get(target: str) -> bytes:
    return f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


@pytest.fixture
def wire(native: Client) -> Iterator[Wire]:
    with native.wire() as opened:
        yield opened


def test_a_connection_is_kept_for_the_next_request(native: Client, wire: Wire, stream: str) -> None:
    assert wire.request("PUT", stream, PLAIN).status == 201
    for number in range(5):
        assert wire.request("POST", stream, PLAIN, b"%d" % number).status == 204
    assert wire.request("GET", stream).body == b"01234"


def test_an_error_of_the_protocol_keeps_the_connection(wire: Wire, stream: str) -> None:
    assert wire.request("GET", stream).status == 404
    assert wire.request("POST", stream, PLAIN, b"").status == 400
    assert wire.request("PUT", stream, PLAIN).status == 201


def test_connection_close_is_honoured_and_echoed(wire: Wire) -> None:
    answer = wire.request("GET", "/healthz", {"Connection": "close"})
    assert (answer.status, answer.get("Connection")) == (200, "close")
    assert wire.ended()


def test_pipelined_appends_and_reads_are_answered_in_order(native: Client, wire: Wire, stream: str) -> None:
    native.made(stream)
    wire.send(plain(stream, b"one") + get(stream) + plain(stream, b"two") + get(stream))
    answers = [wire.answer() for _ in range(4)]
    assert [answer.status for answer in answers] == [204, 200, 204, 200]
    assert [answers[1].body, answers[3].body] == [b"one", b"onetwo"]


def test_a_hundred_pipelined_appends_are_all_taken_in_order(native: Client, wire: Wire, stream: str) -> None:
    native.made(stream)
    wire.send(b"".join(plain(stream, b"%02d" % number) for number in range(100)))
    positions = [int(wire.answer().offset.split("-")[1]) for _ in range(100)]
    assert positions == list(range(2, 202, 2))
    assert native.get(stream).body == b"".join(b"%02d" % number for number in range(100))


def test_an_append_behind_a_waiting_long_poll_is_answered_after_it(
    native: Client, wire: Wire, stream: str
) -> None:
    native.made(stream)
    wire.send(get(f"{stream}?offset=now&live=long-poll") + plain(stream, b"late"))
    native.added(stream, b"first")
    assert wire.answer().body == b"first"
    assert wire.answer().status == 204


def test_a_head_may_come_byte_by_byte(wire: Wire) -> None:
    for byte in get("/healthz"):
        wire.send(bytes([byte]))
    assert wire.answer().body == b"ok\n"


CHUNKS = b'3;name="value"\r\nabc\r\n0a \r\n0123456789\r\n1;x\r\nZ\r\n0\r\nX-Trailer: t\r\n\r\n'
WHOLE = b"abc0123456789Z"


def test_a_chunked_body_split_at_every_byte_arrives_whole(native: Client, wire: Wire, stream: str) -> None:
    """Extensions and trailers in it, and the next request right behind it."""
    native.made(stream)
    request = chunked(stream, CHUNKS)
    start = request.index(b"\r\n\r\n") + 4
    for cut in range(start, len(request)):
        wire.send(request[:cut])
        wire.request_gap()
        wire.send(request[cut:] + get("/healthz"))
        assert wire.answer().status == 204, cut
        assert wire.answer().status == 200, cut
    assert native.get(stream).body == WHOLE * (len(request) - start)


def test_a_chunked_body_may_come_byte_by_byte(native: Client, wire: Wire, stream: str) -> None:
    native.made(stream)
    for byte in chunked(stream, CHUNKS):
        wire.send(bytes([byte]))
    assert wire.answer().status == 204
    assert native.get(stream).body == WHOLE


def test_put_takes_a_chunked_body(native: Client, wire: Wire, stream: str) -> None:
    wire.send(chunked(stream, b"5\r\nhello\r\n0\r\n\r\n", "PUT"))
    assert wire.answer().status == 201
    assert native.get(stream).body == b"hello"


def test_an_empty_chunked_append_is_an_empty_append(native: Client, wire: Wire, stream: str) -> None:
    native.made(stream)
    wire.send(chunked(stream, b"0\r\n\r\n"))
    assert wire.answer().code == "empty_body"


def test_expect_continue_is_answered_before_the_body_is_sent(native: Client, wire: Wire, stream: str) -> None:
    native.made(stream)
    request = plain(stream, b"hello").replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    wire.send(request.removesuffix(b"hello"))
    assert wire.answer().status == 100
    wire.send(b"hello")
    assert wire.answer().status == 204
    assert native.get(stream).body == b"hello"


def test_no_100_is_sent_when_the_body_is_there_already(native: Client, wire: Wire, stream: str) -> None:
    native.made(stream)
    wire.send(plain(stream, b"hello").replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
    assert wire.answer().status == 204


def test_a_body_that_is_too_large_is_refused_instead_of_expected(
    native: Client, wire: Wire, stream: str
) -> None:
    native.made(stream)
    head = f"POST {stream} HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Type: text/plain\r\n"
    wire.send(head.encode() + b"Content-Length: 99999999999\r\n\r\n")
    answer = wire.answer()
    assert (answer.status, answer.code) == (413, "body_too_large")
    assert wire.ended()


def test_another_expectation_is_417(native: Client, wire: Wire, stream: str) -> None:
    native.made(stream)
    answer = wire.request("POST", stream, {**PLAIN, "Expect": "the-worst"}, b"hello")
    assert (answer.status, answer.code) == (417, "expectation_failed")
    assert native.get(stream).body == b""


def test_an_append_that_is_cut_off_leaves_nothing(native: Client, wire: Wire, stream: str) -> None:
    native.made(stream)
    before = native.head(stream).offset
    wire.send(plain(stream, b"x" * 1000)[:-1])
    wire.close()
    half = native.wire()
    half.send(chunked(stream, b"5\r\nhello\r\n"))
    half.close()
    assert native.head(stream).offset == before


def test_a_client_that_has_finished_sending_still_gets_its_answer(
    native: Client, wire: Wire, stream: str
) -> None:
    native.made(stream)
    wire.send(plain(stream, b"hello"))
    wire.plain.shutdown(1)
    assert wire.answer().status == 204
    assert native.get(stream).body == b"hello"


def test_an_offer_to_upgrade_is_ignored(wire: Wire) -> None:
    headers = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQ"}
    assert wire.request("GET", "/healthz", headers).body == b"ok\n"
