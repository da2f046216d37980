"""Writers that share streams: plain appends, exactly-once producers, Stream-Seq."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from tests.crash.history import Attempt, Outcome, Producer, StreamHistory
from tests.crash.messages import Key, encode, payload, request_body
from tests.crash.verify import Wrong
from tests.crash.world import Finished, Slot, Wire, World
from tests.support.http import Connection, Response

BATCH_MAX = 20
BURST_MAX = 8
BIG_BYTES = (900_000, 2_600_000)  # across the 1 MiB that a journal record holds


class Writer:
    """One coroutine with one connection. `round` does one thing; it is called until the campaign ends."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.rng = world.random(name)
        self.wire = Wire(world, name)
        self.number = 0

    async def run(self) -> None:
        try:
            while True:
                await self.round(await self.wire.connection())
        except Finished:
            pass
        finally:
            self.wire.parked = True
            await self.wire.close()

    async def round(self, connection: Connection) -> None:
        raise NotImplementedError

    def length(self) -> int:
        roll = self.rng.random()
        if roll < 0.88:
            return self.rng.randrange(10, 300)
        return self.rng.randrange(1_000, 20_000) if roll < 0.995 else self.rng.randrange(50_000, 200_000)

    def new_append(
        self, stream: StreamHistory, key: Key, count: int = 1, length: int | None = None
    ) -> Attempt:
        """Registers the append: from here on it may be in the stream."""
        lengths = [
            length or (self.length() if count == 1 else self.rng.randrange(5, 200)) for _ in range(count)
        ]
        stored = encode(stream.kind, key, [payload(stream.kind, self.rng, size) for size in lengths])
        return stream.attempt(key, stored, count)

    def acknowledge(self, attempt: Attempt, next_offset: str | None) -> None:
        attempt.acknowledge(next_offset)
        self.world.counts["acknowledged"] += 1

    def next_key(self) -> Key:
        self.number += 1
        return (self.name, self.number, 0)

    def post(
        self,
        connection: Connection,
        stream: StreamHistory,
        stored: bytes,
        headers: dict[str, str] | None = None,
    ) -> asyncio.Future[Response]:
        headers = {"Content-Type": stream.kind.value, **(headers or {})}
        return connection.send("POST", stream.path, headers, request_body(stream.kind, stored))


class PlainWriter(Writer):
    """Appends without identity, at times several in flight. What is unknown is tried anew, or given up."""

    def __init__(
        self, world: World, name: str, slot: Slot, *, batches: bool = False, big: bool = False
    ) -> None:
        super().__init__(world, name)
        self.slot = slot
        self.batches = batches
        self.big = big
        self.stream = slot.current
        self.again: deque[Key] = deque()

    async def round(self, connection: Connection) -> None:
        if not self.again:
            self.stream = self.slot.current
        burst = 1 if self.big or self.rng.random() < 0.6 else self.rng.randrange(2, BURST_MAX)
        sent = []
        for _ in range(burst):
            attempt = self._next()
            sent.append((attempt, self.post(connection, self.stream, attempt.stored)))
        for attempt, future in sent:
            response = await self.wire.answer(future)
            if response is None:
                if self.rng.random() < 0.7:
                    writer, number, tries = attempt.key
                    self.again.append((writer, number, tries + 1))
            elif response.status == 204:
                self.acknowledge(attempt, response.get("Stream-Next-Offset"))
            else:
                attempt.outcome = Outcome.ABSENT
                self.world.unexpected(self.stream, f"appending {attempt.key}", response)
        if self.big:
            await asyncio.sleep(self.rng.uniform(0.1, 0.5))

    def _next(self) -> Attempt:
        key = self.again.popleft() if self.again else self.next_key()
        count = self.rng.randrange(1, BATCH_MAX) if self.batches else 1
        return self.new_append(self.stream, key, count, self.rng.randrange(*BIG_BYTES) if self.big else None)


@dataclass(slots=True)
class Pending:
    """A producer's append that has not been acknowledged."""

    epoch: int
    seq: int
    attempt: Attempt
    stored: bytes
    sends: int = 0


class ProducerWriter(Writer):
    """Exactly-once appends: a window of them is sent again, in order, until each is acknowledged."""

    def __init__(self, world: World, name: str, slot: Slot, *, batches: bool = False) -> None:
        super().__init__(world, name)
        self.slot = slot
        self.batches = batches
        self.stream = slot.current
        self.producer = self.stream.producer(name)
        self.window: list[Pending] = []

    async def round(self, connection: Connection) -> None:
        if not self.window:
            await self._between_windows(connection)
        target = 1 if self.rng.random() < 0.5 else self.rng.randrange(2, BURST_MAX)
        while len(self.window) < target:
            self.window.append(self._next())
        sent = []
        for pending in self.window:
            known = pending.attempt.outcome
            self.stream.resend(pending.attempt, pending.stored)
            pending.sends += 1
            headers = self.headers(self.producer, pending.epoch, pending.seq)
            sent.append((pending, known, self.post(connection, self.stream, pending.stored, headers)))
        missing = False
        for pending, known, future in sent:
            response = await self.wire.answer(future)
            if response is None or (missing and response.status == 409):
                missing = True  # those behind it in the window are refused as a gap
            else:
                self._answered(pending, known, response)
        self.window = [
            pending for pending in self.window if pending.attempt.outcome is not Outcome.ACKNOWLEDGED
        ]

    def headers(self, producer: Producer, epoch: int, seq: int) -> dict[str, str]:
        return {"Producer-Id": producer.name, "Producer-Epoch": str(epoch), "Producer-Seq": str(seq)}

    def _next(self) -> Pending:
        count = self.rng.randrange(1, BATCH_MAX) if self.batches else 1
        attempt = self.new_append(self.stream, self.next_key(), count)
        pending = Pending(self.producer.epoch, self.producer.next_seq, attempt, attempt.stored)
        self.producer.next_seq += 1
        self.producer.sent.append((pending.epoch, pending.seq, attempt))
        return pending

    def _answered(self, pending: Pending, known: Outcome, response: Response) -> None:
        numbers = f"{pending.epoch}/{pending.seq}"
        doing = f"producer append {pending.attempt.key} as {numbers}, sent {pending.sends} times"
        highest = int(response.get("Producer-Seq") or -1)
        accepted = response.status in (200, 204) and highest >= pending.seq
        if not accepted or response.get("Producer-Epoch") != str(pending.epoch):
            self.world.unexpected(self.stream, doing, response)
        elif response.status == 200 and known.happened:
            self.world.complain(
                Wrong.PRODUCER, self.stream, f"{doing}: accepted, though it was there after a restart"
            )
        elif response.status == 204 and (pending.sends == 1 or known is Outcome.ABSENT):
            self.world.complain(
                Wrong.PRODUCER, self.stream, f"{doing}: called a duplicate, though it was not there"
            )
        if response.status in (200, 204):
            self.acknowledge(
                pending.attempt, response.get("Stream-Next-Offset") if response.status == 200 else None
            )
        else:
            pending.attempt.outcome = Outcome.ACKNOWLEDGED  # complained about; do not send it for ever

    async def _between_windows(self, connection: Connection) -> None:
        """All that was sent is acknowledged: time for a duplicate, for a zombie, for a new epoch."""
        if self.stream is not self.slot.current:
            self.stream = self.slot.current
            self.producer = self.stream.producer(self.name)
        highest = self.producer.highest()
        if highest is None:
            return
        epoch, seq, attempt = highest
        roll = self.rng.random()
        if roll < 0.05 and attempt.stored:
            again = self.post(
                connection, self.stream, attempt.stored, self.headers(self.producer, epoch, seq)
            )
            response = await self.wire.answer(again)
            if response is not None and (response.status != 204 or response.get("Producer-Seq") != str(seq)):
                self.world.unexpected(self.stream, f"duplicate of {epoch}/{seq}", response)
        elif roll < 0.07 and epoch == self.producer.epoch:
            self.producer.epoch, self.producer.next_seq = epoch + 1, 0
        elif roll < 0.10 and epoch > 0:
            zombie = self.new_append(self.stream, self.next_key())
            zombie.outcome = Outcome.ABSENT
            headers = self.headers(self.producer, epoch - 1, 0)
            response = await self.wire.answer(self.post(connection, self.stream, zombie.stored, headers))
            if response is not None and (
                response.status != 403 or response.get("Producer-Epoch") != str(epoch)
            ):
                self.world.unexpected(self.stream, f"append with the stale epoch {epoch - 1}", response)


class SequencedWriter(Writer):
    """One writer that tells the server a Stream-Seq with each append: a repetition is refused with 409."""

    def __init__(self, world: World, name: str, slot: Slot) -> None:
        super().__init__(world, name)
        self.slot = slot
        self.stream = slot.current
        self.pending: Pending | None = None

    async def round(self, connection: Connection) -> None:
        if self.pending is None:
            self.stream = self.slot.current
            attempt = self.new_append(self.stream, self.next_key())
            self.pending = Pending(0, self.number, attempt, attempt.stored)
        pending, known = self.pending, self.pending.attempt.outcome
        self.stream.resend(pending.attempt, pending.stored)
        pending.sends += 1
        headers = {"Stream-Seq": f"{pending.seq:012d}"}
        response = await self.wire.answer(self.post(connection, self.stream, pending.stored, headers))
        if response is None:
            return
        doing = f"append {pending.attempt.key}, sent {pending.sends} times, {known.name} before"
        if response.status == 204 and not known.happened:
            self.acknowledge(pending.attempt, response.get("Stream-Next-Offset"))
        elif response.status == 409 and pending.sends > 1 and known is not Outcome.ABSENT:
            self.acknowledge(pending.attempt, None)  # an earlier sending had happened
        else:
            self.world.unexpected(self.stream, doing, response)
        self.pending = None
