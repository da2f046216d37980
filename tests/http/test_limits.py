"""The native door's limits: each refused with its own status, none of them by memory or patience."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.conftest import start
from tests.http.wire import Client, Wire, encode

KIB, MIB = 1 << 10, 1 << 20
TICK_SECONDS = 0.5  # how often the server looks at its connections' clocks


@pytest.mark.parametrize(
    ("target", "lines", "status"),
    [
        ("/healthz", "X-A: " + "x" * 40 * KIB, 431),
        ("/healthz", "\r\n".join(f"X-{n}: {'y' * 100}" for n in range(400)), 431),
        ("/healthz?" + "x" * 9 * KIB, "X-A: b", 414),
        ("/healthz?" + "x" * 60 * KIB, "X-A: b", 414),
    ],
    ids=["one_large_header", "many_headers", "a_long_target", "a_target_longer_than_a_head"],
)
def test_a_head_beyond_its_limit_is_refused(native: Client, target: str, lines: str, status: int) -> None:
    with native.wire() as wire:
        with contextlib.suppress(ConnectionError):
            wire.send(f"GET {target} HTTP/1.1\r\nHost: x\r\n{lines}\r\n\r\n".encode())
        answer = wire.answer()
        assert answer.status == status, answer
        assert answer.code == {431: "headers_too_large", 414: "uri_too_long"}[status]
        assert wire.ended()


def test_a_head_without_end_is_refused_when_it_is_too_large(native: Client) -> None:
    with native.wire() as wire:
        wire.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: " + b"x" * 40 * KIB)
        assert wire.answer().status == 431


def test_empty_lines_before_a_request_hold_up_nobody(native: Client) -> None:
    """One may stand there (RFC 9112 §2.2); a flood of them is no way to keep the server busy."""
    with native.wire() as flood, native.wire() as other:
        flood.plain.setblocking(False)
        sent, began, worst = 0, time.monotonic(), 0.0
        while sent < MIB and time.monotonic() - began < 2:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                sent += flood.plain.send(b"\r\n" * (32 * KIB))
            asked = time.monotonic()
            assert other.request("GET", "/healthz").status == 200
            worst = max(worst, time.monotonic() - asked)
    assert worst < 0.5, f"{worst:.2f} s"


def test_a_head_within_its_limits_is_taken(native: Client) -> None:
    headers = {f"X-{n}": "y" * 1000 for n in range(28)}
    assert native.get("/healthz?" + "x" * 8000).status == 200
    assert native.get("/healthz", headers).status == 200


def test_a_long_target_is_414_at_either_door(client: Client) -> None:
    answer = client.get("/v1/stream/a?" + "x" * 9 * KIB)
    assert (answer.status, answer.code) == (414, "uri_too_long")


@pytest.mark.parametrize("framing", ["Content-Length: 67108865", "Transfer-Encoding: chunked"])
def test_a_body_beyond_the_limit_is_413_before_it_has_been_sent(
    native: Client, stream: str, framing: str
) -> None:
    native.made(stream)
    head = f"POST {stream} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n{framing}\r\n\r\n"
    with native.wire() as wire:
        wire.send(head.encode() + (b"4000001\r\n" if "chunked" in framing else b""))
        answer = wire.answer()
        assert (answer.status, answer.code) == (413, "body_too_large")
        assert wire.ended()
    assert native.get(stream).body == b""


def test_a_client_that_goes_on_sending_still_reads_its_413(native: Client, stream: str) -> None:
    native.made(stream)
    head = (
        f"POST {stream} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 99999999\r\n\r\n"
    )
    with native.wire() as wire:
        with contextlib.suppress(ConnectionError):
            for _ in range(16):
                wire.send(head.encode() + bytes(256 * KIB))
        assert wire.answer().status == 413


def test_a_declared_body_beyond_the_limit_is_413_at_either_door(client: Client, stream: str) -> None:
    client.made(stream)
    head = (
        f"POST {stream} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 67108865\r\n\r\n"
    )
    with client.wire() as wire:
        wire.send(head.encode())
        answer = wire.answer()
    assert (answer.status, answer.code) == (413, "body_too_large")


def test_a_body_of_20_mib_is_taken_in_one_append(client: Client, stream: str) -> None:
    """Clients coalesce as much."""
    client.made(stream)
    body = bytes(range(256)) * (20 << 12)
    assert client.post(stream, body).status == 204
    assert client.get(stream).body == body


# --- time ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    names = ("HEAD_TIMEOUT", "BODY_TIMEOUT", "IDLE_TIMEOUT", "WRITE_TIMEOUT")
    settings = {f"MILLSTREAM_LIMITS_{name}": "1s" for name in names}
    server = start("native", tmp_path_factory.mktemp("hasty"), settings)
    yield Client(server)
    server.close()


def seconds_until_end(wire: Wire) -> float:
    began = time.monotonic()
    assert wire.ended()
    return time.monotonic() - began


def test_an_idle_connection_is_closed_without_a_word(hasty: Client) -> None:
    with hasty.wire() as wire:
        assert wire.request("GET", "/healthz").status == 200
        assert 0.4 < seconds_until_end(wire) < 3


def test_a_connection_that_never_says_anything_is_closed(hasty: Client) -> None:
    with hasty.wire() as wire:
        assert 0.4 < seconds_until_end(wire) < 3


@pytest.mark.parametrize("head", [b"GET /healthz HT", b"GET /healthz HTTP/1.1\nHost: x\n\n", b"\x00"])
def test_a_head_that_does_not_end_is_408(hasty: Client, head: bytes) -> None:
    with hasty.wire() as wire:
        wire.send(head)
        answer = wire.answer()
        assert (answer.status, answer.code) == (408, "request_timeout")
        assert wire.ended()


def test_a_head_that_dribbles_is_408(hasty: Client) -> None:
    """Each byte comes in time, the head does not."""
    began = time.monotonic()
    with hasty.wire() as wire:
        with contextlib.suppress(ConnectionError):
            for byte in b"GET /healthz HTTP/1.1\r\n" + b"X: y\r\n" * 10:
                wire.send(bytes([byte]))
                time.sleep(0.1)
                if time.monotonic() - began > 2.5:
                    break
        assert wire.answer().status == 408


@pytest.mark.parametrize(
    "rest", ["Content-Length: 5\r\n\r\nhel", "Transfer-Encoding: chunked\r\n\r\n5\r\nhel"]
)
def test_a_body_that_stops_is_408_and_leaves_nothing(hasty: Client, stream: str, rest: str) -> None:
    hasty.made(stream)
    with hasty.wire() as wire:
        wire.send(f"POST {stream} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n{rest}".encode())
        answer = wire.answer()
        assert (answer.status, answer.code) == (408, "request_timeout")
        assert wire.ended()
    assert hasty.get(stream).body == b""


def test_a_body_that_is_slow_but_moves_is_taken(hasty: Client, stream: str) -> None:
    hasty.made(stream)
    with hasty.wire() as wire:
        lines = f"POST {stream} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n"
        wire.send(f"{lines}Content-Length: 5\r\n\r\n".encode())
        for byte in b"hello":
            time.sleep(0.4)
            wire.send(bytes([byte]))
        assert wire.answer().status == 204


def test_a_long_poll_may_wait_longer_than_any_of_these(hasty: Client, stream: str) -> None:
    hasty.made(stream)
    with hasty.wire() as wire:
        wire.send(encode("GET", f"{stream}?offset=now&live=long-poll", {}, b"", hasty.server.port))
        time.sleep(2.2)
        hasty.added(stream, "late")
        assert wire.answer().body == b"late"


def test_a_reader_that_takes_nothing_is_cut_off(hasty: Client, stream: str) -> None:
    hasty.made(stream, body=bytes(16 << 20))
    with hasty.wire() as wire:
        wire.send(encode("GET", stream, {}, b"", hasty.server.port))
        head = wire.head()
        time.sleep(2.2)
        taken = 0
        with contextlib.suppress(AssertionError, ConnectionError):
            for piece in wire.body(head):
                taken += len(piece)
        assert taken < 16 << 20, "a part must not look whole"


# --- number -------------------------------------------------------------------------------------


def test_connections_beyond_their_limit_are_refused_with_503(tmp_path: Path) -> None:
    server = start("native", tmp_path, {"MILLSTREAM_LIMITS_CONNECTIONS": "8"})
    wires = [Client(server).wire() for _ in range(8)]
    try:
        assert all(wire.request("GET", "/healthz").status == 200 for wire in wires)
        with Client(server).wire() as ninth:
            answer = ninth.request("GET", "/healthz")
            assert answer.status == 503, answer
            assert answer.code == "overloaded"
            assert answer.get("Retry-After") is not None
            assert ninth.ended()
        wires.pop().close()
        time.sleep(0.1)
        assert Client(server).get("/healthz").status == 200, "room again"
    finally:
        for wire in wires:
            wire.close()
        server.close()


def test_large_bodies_under_way_are_bounded_all_connections_together(tmp_path: Path) -> None:
    server = start("native", tmp_path, {"MILLSTREAM_LIMITS_BODIES": "1MiB"})
    try:
        client = Client(server)
        client.made("/v1/stream/bounded")
        whole = encode(
            "POST", "/v1/stream/bounded", {"Content-Type": "text/plain"}, bytes(900_000), server.port
        )
        with client.wire() as first, client.wire() as second:
            first.send(whole[:-1])  # all but its end: 900 kB wait in memory
            time.sleep(0.3)
            second.send(whole[:300_000])
            assert second.answer().status == 503
            first.send(whole[-1:])
            assert first.answer().status == 204
        with client.wire() as third:
            third.send(whole)
            assert third.answer().status == 204, "room again"
    finally:
        server.close()
