"""Asks a running server for everything that a history speaks of, and has it compared.

Nobody writes meanwhile. Streams to which nothing can happen any more are looked at again in samples;
the last examination of a campaign looks at all of them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass

from tests.crash.history import Producer, StreamHistory
from tests.crash.messages import encode, request_body, stored_bytes
from tests.crash.verify import Complaint, Observed, Wrong, examine
from tests.crash.world import World
from tests.support.http import Connection, Response
from tests.support.server import HOST

CONNECTIONS = 4
RESTING_SAMPLE_MAX = 400
OFFSETS_SAMPLE = 3  # per stream: a read from there must give exactly what stands behind it
OFFSETS_KEPT_MAX = 64  # per stream


@dataclass
class Examiner:
    world: World
    connection: Connection
    rng: random.Random
    complaints: list[Complaint]
    probe: int

    async def stream(self, incarnations: list[StreamHistory]) -> None:
        """All that ever had one name; only the last of them may exist."""
        *former, latest = incarnations
        response = await self.connection.request("GET", f"{latest.path}?offset=-1")
        if response.status not in (200, 404):
            self._wrong(Wrong.ANSWER, latest, "reading everything", response)
            return
        exists = response.status == 200
        raw = stored_bytes(latest.kind, response.body) if exists else b""
        closed = response.get("Stream-Closed") == "true"
        next_offset = response.get("Stream-Next-Offset") or ""
        self.complaints += examine(latest, Observed(exists, raw, closed, next_offset))
        self.world.counts["bytes verified"] += len(raw)
        if exists:
            if response.get("Stream-Up-To-Date") != "true":
                self._wrong(Wrong.ANSWER, latest, "a read of everything that is not up to date", response)
            await self._offsets(latest, raw)
            await self._producers(latest)
        for stream in former[-2:]:
            await self._former(stream, 410 if exists else 404)

    async def _offsets(self, stream: StreamHistory, raw: bytes) -> None:
        if len(stream.offsets) > OFFSETS_KEPT_MAX:
            stream.offsets = self.rng.sample(stream.offsets, OFFSETS_KEPT_MAX)
        for offset, position in self.rng.sample(stream.offsets, min(OFFSETS_SAMPLE, len(stream.offsets))):
            response = await self.connection.request("GET", f"{stream.path}?offset={offset}")
            if response.status != 200:
                self._wrong(Wrong.OFFSET_MOVED, stream, f"reading at {offset}", response)
            elif stored_bytes(stream.kind, response.body) != raw[position:]:
                what = f"reading at {offset} gives other bytes than stand behind byte {position}"
                self._wrong(Wrong.OFFSET_MOVED, stream, what, response)

    async def _producers(self, stream: StreamHistory) -> None:
        """The server remembers the last append of each producer: sent again, it is a duplicate."""
        if stream.closed.happened or stream.abandoned:
            return
        for producer in stream.producers.values():
            highest = producer.highest()
            if highest is None or (place := stream.places.get(highest[2].key)) is None:
                continue
            epoch, seq, _ = highest
            stored = stream.confirmed[slice(*place)]
            response = await self._append(stream, stored, producer, epoch, seq)
            told = (response.status, response.get("Producer-Epoch"), response.get("Producer-Seq"))
            if told != (204, str(epoch), str(seq)):
                self._wrong(Wrong.PRODUCER, stream, f"{producer.name} sends {epoch}/{seq} again", response)

    async def next_sequences(self, stream: StreamHistory) -> None:
        """Every producer goes on with its next sequence."""
        for producer in stream.producers.values():
            highest = producer.highest()
            epoch, seq = (highest[0], highest[1] + 1) if highest else (0, 0)
            self.probe += 1
            key = (f"probe-{producer.name}", self.probe, 0)
            attempt = stream.attempt(key, encode(stream.kind, key, [b"next"]))
            producer.sent.append((epoch, seq, attempt))
            response = await self._append(stream, attempt.stored, producer, epoch, seq)
            if response.status == 200 and response.get("Producer-Seq") == str(seq):
                attempt.acknowledge(response.get("Stream-Next-Offset"))
                self.world.counts["producers continued"] += 1
            else:
                self._wrong(Wrong.PRODUCER, stream, f"{producer.name} goes on with {epoch}/{seq}", response)

    async def _append(
        self, stream: StreamHistory, stored: bytes, producer: Producer, epoch: int, seq: int
    ) -> Response:
        identity = {"Producer-Id": producer.name, "Producer-Epoch": str(epoch), "Producer-Seq": str(seq)}
        headers: Mapping[str, str] = {"Content-Type": stream.kind.value, **identity}
        return await self.connection.request("POST", stream.path, headers, request_body(stream.kind, stored))

    async def _former(self, stream: StreamHistory, expected: int) -> None:
        if stream.first_offset is None:
            return
        response = await self.connection.request("GET", f"{stream.path}?offset={stream.first_offset}")
        if response.status != expected:
            doing = f"an offset of this deleted incarnation should answer {expected}"
            self._wrong(Wrong.CAME_BACK, stream, doing, response)

    def _wrong(self, wrong: Wrong, stream: StreamHistory, doing: str, response: Response) -> None:
        where = f"{stream.name} (incarnation {stream.incarnation})"
        self.complaints.append(Complaint(wrong, where, f"{doing}: {response}"))


async def examine_all(world: World, *, everything: bool = False, producers_continue: bool = False) -> None:
    """Adds what is wrong to the world's complaints."""
    by_name: dict[str, list[StreamHistory]] = {}
    for stream in world.history.streams:
        by_name.setdefault(stream.name, []).append(stream)
    rng = world.random(f"examination {world.counts['examinations']}")
    world.counts["examinations"] += 1
    active = [group for group in by_name.values() if everything or not group[-1].resting]
    resting = [group for group in by_name.values() if not everything and group[-1].resting]
    work = active + rng.sample(resting, min(RESTING_SAMPLE_MAX, len(resting)))
    world.counts["streams examined"] += len(work)

    async def worker(number: int) -> None:
        async with await Connection.open(HOST, world.port) as connection:
            first_probe = world.counts["examinations"] * 1_000_000 + number * 100_000
            examiner = Examiner(world, connection, rng, world.complaints, first_probe)
            while work:
                group = work.pop()
                await examiner.stream(group)
                latest = group[-1]
                if (
                    producers_continue
                    and latest.alive
                    and not latest.closed.happened
                    and not latest.abandoned
                ):
                    await examiner.next_sequences(latest)

    await asyncio.gather(*(worker(number) for number in range(CONNECTIONS)))
    for group in by_name.values():
        for former in group[:-1]:  # nothing can be compared with what is gone
            former.views.clear()
            former.attempts.clear()
