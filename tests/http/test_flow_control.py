"""A slow reader costs the server a buffer, not a stream; and nobody else waits for it."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from tests.http.wire import Client, Wire, encode

MIB = 1 << 20
STREAM_BYTES = 32 * MIB
SLOW_READERS = 8


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def make_large(client: Client) -> str:
    target = "/v1/stream/flow-control/large"
    if client.put(target, "application/octet-stream").status == 201:
        piece = bytes(range(256)) * (MIB // 64)
        for _ in range(STREAM_BYTES // len(piece)):
            client.added(target, piece, "application/octet-stream")
    return target


def slow(native: Client, target: str) -> Wire:
    wire = native.wire()
    wire.send(encode("GET", target, {}, b"", native.server.port))
    assert wire.head().status == 200
    return wire


def test_slow_readers_of_a_large_stream_cost_little_and_disturb_nobody(client: Client, stream: str) -> None:
    large = make_large(client)
    client.made(stream)
    assert len(client.get(large).body) == STREAM_BYTES
    before = resident_bytes(client.server.pid)
    readers = [slow(client, large) for _ in range(SLOW_READERS)]
    try:
        worst = 0.0
        for _ in range(20):
            began = time.monotonic()
            client.added(stream, "x")
            worst = max(worst, time.monotonic() - began)
        grown = resident_bytes(client.server.pid) - before
        assert grown < SLOW_READERS * 2 * MIB, f"{grown / MIB:.0f} MiB for {SLOW_READERS} readers"
        assert worst < 1.0
        assert len(client.get(large).body) == STREAM_BYTES
    finally:
        for reader in readers:
            reader.close()


def test_a_slow_reader_gets_every_byte_in_the_end(native: Client) -> None:
    large = make_large(native)
    with native.wire() as wire:
        wire.send(encode("GET", large, {}, b"", native.server.port))
        head = wire.head()
        assert head.get("Content-Length") == str(STREAM_BYTES)
        time.sleep(0.3)
        body = b"".join(wire.body(head))
    assert body == bytes(range(256)) * (STREAM_BYTES // 256)


def test_pipelined_reads_that_nobody_takes_do_not_pile_up(native: Client, stream: str) -> None:
    """Each answer is small enough to be sent at once; a thousand of them are not."""
    native.made(stream, body=bytes(200_000))
    before = resident_bytes(native.server.pid)
    request = encode("GET", stream, {}, b"", native.server.port)
    with native.wire() as wire:
        wire.plain.settimeout(1.0)
        with contextlib.suppress(TimeoutError):  # the server stops reading: as it should
            wire.send(request * 1000)
        deadline = time.monotonic() + 1.0
        grown = 0
        while time.monotonic() < deadline and grown < 64 * MIB:
            grown = max(grown, resident_bytes(native.server.pid) - before)
            time.sleep(0.05)
    assert grown < 64 * MIB, f"{grown / MIB:.0f} MiB wait for one client"


def test_a_slow_subscriber_is_not_buffered_for(native: Client, stream: str) -> None:
    native.made(stream, "application/octet-stream")
    before = resident_bytes(native.server.pid)
    wire, head, _ = native.listen(f"{stream}?offset=-1&live=sse")
    with wire:
        assert head.status == 200
        for _ in range(24):
            native.added(stream, bytes(MIB), "application/octet-stream")
        grown = resident_bytes(native.server.pid) - before
    # The stream stays in memory for its readers and in the store's memtable; events would come on top.
    assert grown < 24 * MIB * 3, f"{grown / MIB:.0f} MiB"
