"""Writers that own their streams: create them with a first message, append, close or delete, start anew."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.crash.history import Outcome, StreamHistory
from tests.crash.messages import Kind, encode, payload, request_body
from tests.crash.verify import Wrong
from tests.crash.world import World
from tests.crash.writers import Writer
from tests.support.http import Connection, Response

APPENDS_MAX = 30


class LifecycleWriter(Writer):
    """Each step is repeated until its outcome is known; a step that is safe to repeat keeps its identity."""

    def __init__(self, world: World, name: str, kind: Kind) -> None:
        super().__init__(world, name)
        self.kind = kind
        self.turn = 0

    async def create(self, name: str, incarnation: int, *, closed: bool = False) -> StreamHistory:
        stream: StreamHistory | None = None
        while True:
            connection = await self.wire.connection()
            fresh = stream is None or stream.created is Outcome.ABSENT
            if stream is None or fresh:
                stream = self.world.history.stream(name, incarnation, self.kind)
                key = (f"{self.name}.{incarnation}", self.number, 0)
                self.number += 1
                stored = encode(self.kind, key, [payload(self.kind, self.rng, self.length())])
                attempt = stream.attempt(key, stored)
                stream.closed = Outcome.UNKNOWN if closed else Outcome.ABSENT
            known = stream.created
            headers = {"Content-Type": self.kind.value, **({"Stream-Closed": "true"} if closed else {})}
            body = request_body(self.kind, stored)
            response = await self.wire.answer(connection.send("PUT", stream.path, headers, body))
            if response is None:
                continue
            if response.status != 201 and (response.status != 200 or fresh):
                self.world.unexpected(stream, f"creating (fresh: {fresh}, known: {known.name})", response)
            elif response.status == 201 and known.happened:
                self.world.unexpected(stream, "creating what was there after a restart", response)
            self.world.created(stream, response)
            self.acknowledge(attempt, response.get("Stream-Next-Offset") if response.status == 201 else None)
            if closed:
                stream.closed = Outcome.ACKNOWLEDGED
            return stream

    async def append(self, stream: StreamHistory, *, close: bool = False) -> None:
        """A plain append, tried under a new identity until one is acknowledged."""
        writer, number, tries = f"{self.name}.{stream.incarnation}", self.number, 0
        self.number += 1
        while True:
            connection = await self.wire.connection()
            if close and stream.closed is Outcome.PRESENT:
                return  # the last attempt did it, as the restart showed
            attempt = self.new_append(stream, (writer, number, tries))
            headers = {"Stream-Closed": "true"} if close else {}
            if close:
                stream.closed = Outcome.UNKNOWN
            response = await self.wire.answer(self.post(connection, stream, attempt.stored, headers))
            if response is None:
                tries += 1
                continue
            if response.status == 204:
                self.acknowledge(attempt, response.get("Stream-Next-Offset"))
                if close:
                    stream.closed = Outcome.ACKNOWLEDGED
                return
            attempt.outcome = Outcome.ABSENT
            if close and tries and response.status == 409 and response.get("Stream-Closed") == "true":
                stream.closed = Outcome.ACKNOWLEDGED  # an earlier attempt closed it
            else:
                self.world.unexpected(stream, f"appending {attempt.key} (closing: {close})", response)
            return


class ClosingWriter(LifecycleWriter):
    """Closes streams in every way there is, then sees itself refused."""

    async def round(self, connection: Connection) -> None:
        self.turn += 1
        born_closed = self.rng.random() < 0.1
        stream = await self.create(f"{self.name}.{self.turn}", self.turn, closed=born_closed)
        if not born_closed:
            for _ in range(self.rng.randrange(APPENDS_MAX)):
                await self.append(stream)
            ways: list[Callable[[StreamHistory], Awaitable[None]]] = [
                self._close_only,
                self._close_with_last_append,
                self._close_as_producer,
            ]
            await self.rng.choice(ways)(stream)
        await self._refused(stream)
        stream.abandoned = True

    async def _close_only(self, stream: StreamHistory) -> None:
        response: Response | None = None
        while response is None:
            connection = await self.wire.connection()
            if not stream.closed.happened:
                stream.closed = Outcome.UNKNOWN
            response = await self.wire.answer(connection.send("POST", stream.path, {"Stream-Closed": "true"}))
        if response.status != 204 or response.get("Stream-Closed") != "true":
            self.world.unexpected(stream, "closing", response)
        stream.closed = Outcome.ACKNOWLEDGED

    async def _close_with_last_append(self, stream: StreamHistory) -> None:
        await self.append(stream, close=True)

    async def _close_as_producer(self, stream: StreamHistory) -> None:
        producer = stream.producer(self.name)
        attempt = self.new_append(stream, (f"{self.name}.{stream.incarnation}", self.number, 0))
        self.number += 1
        producer.sent.append((0, 0, attempt))
        stored, response, sends = attempt.stored, None, 0
        headers = {
            "Producer-Id": producer.name,
            "Producer-Epoch": "0",
            "Producer-Seq": "0",
            "Stream-Closed": "true",
        }
        while response is None:
            connection = await self.wire.connection()
            known = attempt.outcome
            stream.resend(attempt, stored)
            if not stream.closed.happened:
                stream.closed = Outcome.UNKNOWN
            sends += 1
            response = await self.wire.answer(self.post(connection, stream, stored, headers))
        fresh = sends == 1 or known is Outcome.ABSENT
        if response.status not in (200, 204) or response.get("Stream-Closed") != "true":
            self.world.unexpected(stream, f"closing as a producer, sent {sends} times", response)
        elif (response.status == 200 and known.happened) or (response.status == 204 and fresh):
            doing = f"closing as a producer, sent {sends} times, {known.name} before"
            self.world.complain(Wrong.PRODUCER, stream, f"{doing}: {response}")
        stream.closed = Outcome.ACKNOWLEDGED
        self.acknowledge(attempt, response.get("Stream-Next-Offset") if response.status == 200 else None)

    async def _refused(self, stream: StreamHistory) -> None:
        connection = await self.wire.connection()
        attempt = self.new_append(stream, (f"{self.name}.{stream.incarnation}", self.number, 0))
        self.number += 1
        attempt.outcome = Outcome.ABSENT
        response = await self.wire.answer(self.post(connection, stream, attempt.stored))
        if response is not None and (response.status != 409 or response.get("Stream-Closed") != "true"):
            self.world.unexpected(stream, "appending to the closed stream", response)


class DeletingWriter(LifecycleWriter):
    """Deletes its stream and creates it again under the same name."""

    async def round(self, connection: Connection) -> None:
        self.turn += 1
        stream = await self.create(self.name, self.turn)
        for _ in range(self.rng.randrange(APPENDS_MAX)):
            await self.append(stream)
        if self.rng.random() < 0.2:
            await self.append(stream, close=True)
        await self._delete(stream)
        if self.rng.random() < 0.5:
            await self._gone(stream)
            await asyncio.sleep(self.rng.uniform(0, 0.1))

    async def _delete(self, stream: StreamHistory) -> None:
        sends = 0
        while True:
            connection = await self.wire.connection()
            if stream.deleted is Outcome.PRESENT:
                return
            if stream.deleted is Outcome.ABSENT:
                sends = 0  # never sent, or shown by a restart not to have happened
            stream.deleted = Outcome.UNKNOWN
            sends += 1
            response = await self.wire.answer(connection.send("DELETE", stream.path))
            if response is None:
                continue
            if response.status != 204 and (response.status != 404 or sends == 1):
                self.world.unexpected(stream, f"deleting, sent {sends} times", response)
            stream.deleted = Outcome.ACKNOWLEDGED
            return

    async def _gone(self, stream: StreamHistory) -> None:
        connection = await self.wire.connection()
        response = await self.wire.answer(connection.send("HEAD", stream.path))
        if response is not None and response.status != 404:
            self.world.unexpected(stream, "HEAD after its deletion", response)
