"""On the real server under load, seen by strace: no append is answered before the sync that covers it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.crash.trace import STRING_BYTES_MAX, SYNCING, TRACED, Append, Trace, marker, parse
from tests.support.http import Connection
from tests.support.server import HOST, Server

APPENDS_EACH = 40  # per connection
BIG_APPENDS = 3
BIG_BYTES = 1_300_000  # more than one journal record holds
READY_SECONDS_MAX = 120.0  # strace makes imports slow
TRACE_SECONDS_MAX = 60.0

BYTES = {"Content-Type": "application/octet-stream"}
JSON = {"Content-Type": "application/json"}


@dataclass
class Load:
    """Connections with one request in flight each; every body is marked."""

    port: int
    appends: list[Append] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    async def run(self) -> None:
        writers: list[Callable[[Connection, str], Awaitable[None]]] = [
            *[self.plain] * 8,
            *[self.producer] * 3,
            *[self.batches] * 3,
            *[self.closing] * 3,
            self.big,
        ]
        await self._setup()
        await asyncio.gather(*(self._writer(write, f"w{index}") for index, write in enumerate(writers)))

    async def _setup(self) -> None:
        async with await Connection.open(HOST, self.port) as connection:
            for stream in range(3):
                assert (await connection.request("PUT", f"/v1/stream/s{stream}", BYTES)).status == 201
            assert (await connection.request("PUT", "/v1/stream/j", JSON)).status == 201

    async def _writer(self, write: Callable[[Connection, str], Awaitable[None]], name: str) -> None:
        async with await Connection.open(HOST, self.port) as connection:
            await write(connection, name)

    async def plain(self, connection: Connection, name: str) -> None:
        for number in range(APPENDS_EACH):
            found = marker(f"{name}.{number}")
            target = f"/v1/stream/s{number % 3}"
            await self._send(connection, "POST", target, BYTES, f"{found} plain".encode(), found)

    async def producer(self, connection: Connection, name: str) -> None:
        for number in range(APPENDS_EACH):
            found = marker(f"{name}.{number}")
            identity = {"Producer-Id": name, "Producer-Epoch": "0", "Producer-Seq": str(number)}
            headers = {**BYTES, **identity}
            await self._send(connection, "POST", "/v1/stream/s0", headers, f"{found} once".encode(), found)

    async def batches(self, connection: Connection, name: str) -> None:
        for number in range(APPENDS_EACH):
            found = [marker(f"{name}.{number}.{index}") for index in range(5)]
            body = "[" + ",".join(f'{{"m":"{each}"}}' for each in found) + "]"
            await self._send(connection, "POST", "/v1/stream/j", JSON, body.encode(), *found)

    async def closing(self, connection: Connection, name: str) -> None:
        """A first message with the creation, a last one with the closure."""
        for number in range(APPENDS_EACH // 2):
            first, last = marker(f"{name}.{number}.first"), marker(f"{name}.{number}.last")
            target = f"/v1/stream/{name}.{number}"
            await self._send(connection, "PUT", target, BYTES, first.encode(), first)
            await self._send(
                connection, "POST", target, {**BYTES, "Stream-Closed": "true"}, last.encode(), last
            )

    async def big(self, connection: Connection, name: str) -> None:
        for number in range(BIG_APPENDS):
            first, last = marker(f"{name}.{number}.first"), marker(f"{name}.{number}.last")
            body = f"{first}{'x' * BIG_BYTES}{last}".encode()
            await self._send(connection, "POST", "/v1/stream/s1", BYTES, body, first, last)

    async def _send(
        self,
        connection: Connection,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes,
        *found: str,
    ) -> None:
        response = await connection.request(method, target, headers, body)
        if response.status in (200, 201, 204):
            self.appends.append(Append(found))
        else:
            self.refused.append(f"{method} {target}: {response}")


def _traced(directory: Path) -> tuple[Server, Path]:
    strace = shutil.which("strace")
    if os.environ.get("MILLSTREAM_NO_STRACE") == "1":
        pytest.skip("MILLSTREAM_NO_STRACE=1: the order of sync and answer is not examined")
    assert strace is not None, (
        "this proof needs strace (apt-get install strace); MILLSTREAM_NO_STRACE=1 does without it"
    )
    trace = directory / "trace"
    # -D: the server, not strace, is our child, and gets our signals.
    options = ["-D", "-f", "-ttt", "-yy", "--seccomp-bpf", "-s", str(STRING_BYTES_MAX)]
    wrapper = [strace, *options, "-o", str(trace), "-e", f"trace={','.join(sorted(TRACED))}"]
    return Server.native(directory, wrapper=wrapper), trace


def _whole_trace(path: Path, pid: int) -> list[str]:
    """strace writes the end after the server's own: wait for it."""
    deadline = time.monotonic() + TRACE_SECONDS_MAX
    while time.monotonic() < deadline:
        lines = path.read_text(errors="replace").splitlines()
        if any(line.split()[0] == str(pid) and "+++ " in line for line in lines[-50:]):
            return lines
        time.sleep(0.2)
    raise AssertionError(f"the trace {path} has no end")


@pytest.mark.timeout(300)
def test_no_append_is_answered_before_the_sync_that_covers_it(tmp_path: Path) -> None:
    server, trace_path = _traced(tmp_path)
    try:
        server.spawn()
        server.wait_ready(READY_SECONDS_MAX)
        load = Load(server.port)
        asyncio.run(load.run())
        server.send(signal.SIGTERM)
        lines = _whole_trace(trace_path, server.pid)
    finally:
        server.close()
    assert load.refused == []
    calls = parse(lines)
    assert list(Trace(calls, server.data_dir).check(load.appends)) == []
    syncs = sum(call.name in SYNCING and str(server.data_dir) in call.file for call in calls)
    print(
        f"sync before answer: {len(load.appends)} appends, {syncs} syncs, {len(lines)} calls: none too early"
    )

    unsynced = [call for call in calls if call.name not in SYNCING]
    flagged = list(Trace(unsynced, server.data_dir).check(load.appends))
    assert len(flagged) >= len(load.appends), "the same trace without its syncs must be flagged"
