"""Readers that follow streams through crashes and remember every byte, offset and closure they saw."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from tests.crash.history import Outcome, StreamHistory, View, position_of
from tests.crash.messages import Kind, Torn, stored_bytes
from tests.crash.verify import Wrong
from tests.crash.world import Finished, Wire, World
from tests.support.http import Connection, Head, Lost, Response
from tests.support.server import HOST
from tests.support.sse import Event, subscribe

LONG_POLL_SECONDS_MAX = 60.0  # above the server's own 25 s
STEPS_MAX = 12  # of one mode, before another is chosen


class Reader:
    """Not held back by the gate: it asks while the server recovers, too."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.rng = world.random(name)
        self.wire = Wire(world, name, parked=True)
        self.cursor: str | None = None

    async def run(self) -> None:
        try:
            while not self.world.stopping:
                chosen = self._choose()
                if chosen is None:
                    await asyncio.sleep(0.02)
                else:
                    await self._follow(*chosen)
        except Finished:
            pass
        finally:
            await self.wire.close()

    def _choose(self) -> tuple[StreamHistory, View] | None:
        if not self.world.recent:
            return None
        stream = self.rng.choice(list(self.world.recent))
        roll = self.rng.random()
        offset, start = "-1", 0
        if stream.incarnation or roll < 0.3:  # "-1" would read whichever incarnation is there
            assert stream.first_offset is not None
            offset, start = stream.first_offset, position_of(stream.first_offset)
        elif roll < 0.6 and stream.offsets:
            offset, start = self.rng.choice(stream.offsets)
        view = View(self.name, start, offset)
        stream.views.append(view)
        return stream, view

    async def _follow(self, stream: StreamHistory, view: View) -> None:
        for _ in range(self.rng.randrange(1, 40)):
            if view.closed or view.gone or self.world.stopping:
                return
            mode = self.rng.choice([self._catch_up, self._long_poll, self._events])
            try:
                await mode(stream, view)
            except Lost as lost:
                self._partial(stream, view, lost)
                await asyncio.sleep(self.rng.uniform(0.02, 0.1))
            except OSError:
                await asyncio.sleep(self.rng.uniform(0.02, 0.1))
            except (Torn, ValueError) as error:
                wrong = Wrong.TORN if isinstance(error, Torn) else Wrong.ANSWER
                self.world.complain(wrong, stream, f"{self.name} at {view.offset}: {error}")
                return

    async def _catch_up(self, stream: StreamHistory, view: View) -> None:
        response = await self._get(f"{stream.path}?offset={view.offset}", 30)
        if response.status == 200:
            self._seen(view, response.head, stored_bytes(stream.kind, response.body))
        else:
            await self._refused(stream, view, response)

    async def _long_poll(self, stream: StreamHistory, view: View) -> None:
        for _ in range(self.rng.randrange(1, STEPS_MAX)):
            cursor = f"&cursor={self.cursor}" if self.cursor else ""
            target = f"{stream.path}?offset={view.offset}&live=long-poll{cursor}"
            response = await self._get(target, LONG_POLL_SECONDS_MAX)
            if response.status not in (200, 204):
                await self._refused(stream, view, response)
                return
            self.cursor = response.get("Stream-Cursor")
            stored = stored_bytes(stream.kind, response.body) if response.status == 200 else b""
            self._seen(view, response.head, stored)
            if view.closed:
                return

    async def _events(self, stream: StreamHistory, view: View) -> None:
        target = f"{stream.path}?offset={view.offset}&live=sse"
        limit = self.rng.randrange(1, 10 * STEPS_MAX)
        async with subscribe(HOST, self.world.port, target) as (head, events):
            if head.status != 200:
                await self._refused(stream, view, Response(head, b""))
                return
            async with aclosing(_limited(events, limit)) as some:
                await self._take(stream, view, head, some)

    async def _take(
        self, stream: StreamHistory, view: View, head: Head, events: AsyncIterator[Event]
    ) -> None:
        pending = b""
        try:
            async for event in events:
                if event.kind == "data":
                    pending += _decoded(stream.kind, head, event.data)
                elif event.kind == "control":
                    control = json.loads(event.data)
                    view.extend(pending, control["streamNextOffset"])
                    pending = b""
                    view.closed = bool(control.get("streamClosed"))
        finally:
            view.claim(pending)  # seen, though no control event came for it

    async def _get(self, target: str, seconds_max: float) -> Response:
        if self.wire.current is None or self.wire.current.broken:
            await self.wire.close()
            self.wire.current = await Connection.open(HOST, self.world.port)
        try:
            return await asyncio.wait_for(self.wire.current.send("GET", target), seconds_max)
        except TimeoutError:
            await self.wire.close()
            raise ValueError(f"no answer in {seconds_max} s to GET {target}") from None

    def _seen(self, view: View, head: Head, stored: bytes) -> None:
        next_offset = head.get("Stream-Next-Offset")
        if next_offset is None:
            raise ValueError(f"no Stream-Next-Offset: {head}")
        view.extend(stored, next_offset)
        view.closed = head.get("Stream-Closed") == "true"
        self.world.counts["reads"] += 1

    def _partial(self, stream: StreamHistory, view: View, lost: Lost) -> None:
        """Part of a body came before the connection broke: those bytes were seen, too."""
        if lost.head is not None and lost.head.status == 200 and lost.partial:
            self.world.counts["partial reads"] += 1
            json_part = lost.partial[1:].removesuffix(b"]")
            view.claim(json_part if stream.kind is Kind.JSON else lost.partial)

    async def _refused(self, stream: StreamHistory, view: View, response: Response) -> None:
        if response.status in (404, 410) and stream.deleted is not Outcome.ABSENT:
            view.gone = True
        elif response.status == 503:
            await asyncio.sleep(0.05)
        else:
            self.world.unexpected(stream, f"{self.name} reading at {view.offset}", response)
            view.gone = True


async def _limited(events: AsyncIterator[Event], limit: int) -> AsyncGenerator[Event, None]:
    """Ends after so many events, but only behind a control event."""
    taken = 0
    async for event in events:
        taken += 1
        yield event
        if taken >= limit and event.kind == "control":
            return


def _decoded(kind: Kind, head: Head, data: str) -> bytes:
    if kind is Kind.BYTES:
        if head.get("Stream-SSE-Data-Encoding") != "base64":
            raise ValueError(f"binary events without their encoding: {head}")
        return base64.b64decode(data.replace("\n", ""), validate=True)
    if kind is Kind.TEXT:
        return data.encode()
    items = json.loads(data)
    return b"".join(json.dumps(item, separators=(",", ":")).encode() + b"," for item in items)
