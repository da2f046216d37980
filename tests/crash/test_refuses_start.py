"""A data directory has one server; a server that is told to stop stops soon, cleanly, and drops nothing."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.http import Connection, Lost, Response, close_writer, read_body, read_head
from tests.support.server import HOST, STOP_SECONDS_MAX, Server, free_port, native_command
from tests.support.sse import Event, subscribe

BYTES = {"Content-Type": "application/octet-stream"}
STREAM = "/v1/stream/s"
REFUSAL_SECONDS_MAX = 20.0
REASON = re.compile(r"another|already|in use|held|lock", re.IGNORECASE)
HALF_BYTES = 700_000  # the whole is more than one journal record holds


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server.native(tmp_path) as running:
        yield running


def second(server: Server, directory: Path) -> Server:
    """Another process on the same data directory, and another port."""
    port = free_port()
    return Server(native_command(port, server.data_dir), port, server.data_dir, directory / "second.log")


def test_a_second_server_on_a_held_data_directory_is_refused_with_the_reason(
    server: Server, tmp_path: Path
) -> None:
    intruder = second(server, tmp_path)
    try:
        intruder.spawn()
        code = intruder.wait_stopped(REFUSAL_SECONDS_MAX)
    finally:
        intruder.close()
    said = intruder.log_text()
    assert code > 0, said
    assert str(server.data_dir) in said.replace("\n", ""), "the refusal names the directory"
    assert REASON.search(said), f"the refusal gives the reason: {said}"
    assert "Traceback" not in said
    assert server.answers_healthy(), "the first server is not disturbed"


def test_a_killed_servers_data_directory_is_free(server: Server, tmp_path: Path) -> None:
    server.kill9()
    successor = second(server, tmp_path)
    try:
        successor.start()
        assert successor.terminate() == 0
    finally:
        successor.close()


def test_a_stopped_servers_data_directory_is_free(server: Server) -> None:
    assert server.terminate() == 0
    server.start()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_server_politely_while_readers_wait_and_appends_are_under_way(
    server: Server, number: signal.Signals
) -> None:
    asyncio.run(_stop_under_way(server, number))


async def _stop_under_way(server: Server, number: signal.Signals) -> None:
    async with (
        await Connection.open(HOST, server.port) as writer,
        await Connection.open(HOST, server.port) as poller,
        await Connection.open(HOST, server.port) as idle,
    ):
        assert (await writer.request("PUT", STREAM, BYTES)).status == 201
        assert (await idle.request("HEAD", STREAM)).status == 200
        tail = (await writer.request("POST", STREAM, BYTES, b"first")).get("Stream-Next-Offset")
        quiet = "/v1/stream/quiet"
        assert (await writer.request("PUT", quiet, BYTES)).status == 201
        waiting = poller.send("GET", f"{quiet}?offset=now&live=long-poll")
        async with (
            subscribe(HOST, server.port, f"{STREAM}?offset=-1&live=sse") as (head, events),
            _half_an_append(server.port) as finish,
        ):
            assert head.status == 200
            reading = asyncio.create_task(_everything(events))
            await asyncio.sleep(0.5)
            stopping = time.monotonic()
            server.send(number)
            await asyncio.sleep(0.3)
            appended = await finish
            polled = await _politely(waiting)
            await asyncio.wait_for(reading, STOP_SECONDS_MAX)  # raises Lost where the events were cut off
        code = await asyncio.to_thread(server.wait_stopped, STOP_SECONDS_MAX)
        took = time.monotonic() - stopping
    assert code == 0, server.log_end()
    assert took <= STOP_SECONDS_MAX
    assert appended.status == 204, f"an append under way finishes: {appended}"
    assert polled.status in (200, 204, 503), f"a waiting long-poll gets an answer: {polled}"
    assert "Traceback" not in server.log_text()
    await asyncio.to_thread(server.start)
    async with await Connection.open(HOST, server.port) as reader:
        after = await reader.request("GET", f"{STREAM}?offset={tail}")
        assert after.body == b"a" * HALF_BYTES + b"b" * HALF_BYTES, "the answered append is there"


@asynccontextmanager
async def _half_an_append(port: int) -> AsyncIterator[Awaitable[Response]]:
    """An append whose second half is sent when the result is awaited."""
    reader, writer = await asyncio.open_connection(HOST, port)

    async def finish() -> Response:
        writer.write(b"b" * HALF_BYTES)
        try:
            answer = await asyncio.wait_for(read_head(reader), STOP_SECONDS_MAX)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            pytest.fail(f"the append under way was cut off without an answer: {error!r}")
        body = b"".join([piece async for piece in read_body(reader, answer, "POST")])
        return Response(answer, body)

    finishing = finish()
    try:
        head = f"POST {STREAM} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: {BYTES['Content-Type']}\r\n"
        writer.write(f"{head}Content-Length: {2 * HALF_BYTES}\r\n\r\n".encode() + b"a" * HALF_BYTES)
        await writer.drain()
        yield finishing
    finally:
        finishing.close()
        await close_writer(writer)


async def _everything(events: AsyncIterator[Event]) -> list[Event]:
    return [event async for event in events]


async def _politely(waiting: asyncio.Future[Response]) -> Response:
    try:
        return await asyncio.wait_for(waiting, STOP_SECONDS_MAX)
    except Lost as lost:
        pytest.fail(f"the long-poll was dropped without an answer: {lost}")


def test_appends_that_were_acknowledged_before_a_stop_are_there_afterwards(server: Server) -> None:
    acknowledged = asyncio.run(_append_until_stopped(server))
    assert len(acknowledged) > 10
    server.start()
    found = asyncio.run(_read_all(server))
    assert [line for line in acknowledged if line not in found] == []
    assert len(found) == len(set(found))


async def _append_until_stopped(server: Server) -> list[str]:
    acknowledged: list[str] = []

    async def write(name: str) -> None:
        number = 0
        async with await Connection.open(HOST, server.port) as connection:
            while True:
                number += 1
                line = f"{name}.{number}"
                try:
                    response = await connection.request("POST", STREAM, BYTES, f"{line}\n".encode())
                except Lost:
                    return
                if response.status != 204:
                    assert response.status == 503, f"{line}: {response}"
                    return
                acknowledged.append(line)

    async with await Connection.open(HOST, server.port) as connection:
        assert (await connection.request("PUT", STREAM, BYTES)).status == 201
    writers = [asyncio.create_task(write(f"w{index}")) for index in range(8)]
    await asyncio.sleep(0.7)
    server.send(signal.SIGTERM)
    await asyncio.wait_for(asyncio.gather(*writers), STOP_SECONDS_MAX)
    assert await asyncio.to_thread(server.wait_stopped) == 0
    return acknowledged


async def _read_all(server: Server) -> list[str]:
    async with await Connection.open(HOST, server.port) as connection:
        return (await connection.request("GET", STREAM)).body.decode().splitlines()
