"""What the writers and readers of one campaign share: the server's address, the gate, the complaints."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, deque
from dataclasses import dataclass, field

from tests.crash.history import History, Outcome, StreamHistory
from tests.crash.messages import Kind
from tests.crash.verify import Complaint, Wrong
from tests.support.http import Connection, Lost, Response
from tests.support.server import HOST

ANSWER_SECONDS_MAX = 30.0
STREAM_BYTES_MAX = 6_000_000  # then its writers move on, so that examinations stay quick
RECENT_STREAMS_MAX = 64  # what readers choose from


class Finished(Exception):
    """The campaign is over: raised at the gate."""


@dataclass(slots=True)
class Slot:
    """A place for writers that share a stream; the stream in it is replaced when it has grown."""

    name: str
    kind: Kind
    current: StreamHistory
    turn: int = 0


@dataclass
class World:
    port: int
    seed: str
    history: History = field(default_factory=History)
    complaints: list[Complaint] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    recent: deque[StreamHistory] = field(default_factory=lambda: deque(maxlen=RECENT_STREAMS_MAX))
    slots: list[Slot] = field(default_factory=list)
    go: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: bool = False

    def random(self, name: str) -> random.Random:
        return random.Random(f"{self.seed}/{name}")

    async def gate(self) -> None:
        """Writers pass here before every round; while it is shut nothing is written."""
        await self.go.wait()
        if self.stopping:
            raise Finished

    def complain(self, wrong: Wrong, stream: StreamHistory, what: str) -> None:
        self.complaints.append(Complaint(wrong, f"{stream.name} (incarnation {stream.incarnation})", what))

    def unexpected(self, stream: StreamHistory, doing: str, response: Response) -> None:
        self.complain(Wrong.ANSWER, stream, f"{doing}: {response}")

    def created(self, stream: StreamHistory, response: Response) -> None:
        stream.created = Outcome.ACKNOWLEDGED
        stream.first_offset = stream.first_offset or response.get("Stream-Next-Offset")
        self.recent.append(stream)

    async def fill_slots(self) -> None:
        """Only while the server is up and nobody writes: replaces streams that have grown."""
        async with await Connection.open(HOST, self.port) as connection:
            for slot in self.slots:
                if slot.current.created.happened:
                    if slot.current.bytes_sent < STREAM_BYTES_MAX:
                        continue
                    slot.current.abandoned = True
                    slot.turn += 1
                    slot.current = self.history.stream(f"{slot.name}.{slot.turn}", 0, slot.kind)
                headers = {"Content-Type": slot.kind.value}
                response = await connection.request("PUT", slot.current.path, headers)
                if response.status == 201:
                    self.created(slot.current, response)
                else:
                    self.unexpected(slot.current, "creating", response)

    def slot(self, name: str, kind: Kind) -> Slot:
        made = Slot(name, kind, self.history.stream(f"{name}.0", 0, kind))
        self.slots.append(made)
        return made


@dataclass
class Wire:
    """A connection that is opened again when it has broken."""

    world: World
    name: str
    current: Connection | None = None
    parked: bool = False

    async def connection(self) -> Connection:
        while True:
            self.parked = True
            await self.world.gate()
            self.parked = False
            if self.current is not None and not self.current.broken:
                return self.current
            await self.close()
            try:
                self.current = await Connection.open(HOST, self.world.port)
            except OSError:
                await asyncio.sleep(0.03 + 0.05 * random.random())

    async def answer(self, future: asyncio.Future[Response]) -> Response | None:
        """The answer, or None where the outcome is unknown."""
        try:
            response = await asyncio.wait_for(future, ANSWER_SECONDS_MAX)
        except Lost as lost:
            self.world.counts["lost answers"] += 1
            if lost.head is not None and lost.head.status >= 500:
                self.world.complaints.append(Complaint(Wrong.ANSWER, self.name, str(lost.head)))
            return None
        except TimeoutError:
            hang = f"no answer in {ANSWER_SECONDS_MAX} s"
            self.world.complaints.append(Complaint(Wrong.ANSWER, self.name, hang))
            await self.close()
            return None
        if response.status in (429, 503):
            self.world.counts["busy answers"] += 1
            await asyncio.sleep(0.05)
            return None
        self.world.counts["answers"] += 1
        return response

    async def close(self) -> None:
        if self.current is not None:
            await self.current.close()
            self.current = None
