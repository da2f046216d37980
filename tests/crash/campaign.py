"""Kills a server again and again under load, at random moments, some of them during its recovery."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from dataclasses import dataclass, field

from tests.crash.examination import examine_all
from tests.crash.lifecycles import ClosingWriter, DeletingWriter
from tests.crash.messages import Kind
from tests.crash.readers import Reader
from tests.crash.verify import Complaint, Wrong
from tests.crash.world import Slot, Wire, World
from tests.crash.writers import PlainWriter, ProducerWriter, SequencedWriter, Writer
from tests.support.server import Server

UNDER_LOAD_SECONDS = (0.2, 2.0)
RECOVERY_KILL_CHANCE = 0.35  # a kill under load is followed by one during the recovery from it
PARK_SECONDS_MAX = 60.0
READERS = 14
COMPLAINTS_SHOWN_MAX = 30


@dataclass
class Report:
    seed: str
    kills: int = 0
    kills_before_ready: int = 0
    acknowledged: int = 0
    recoveries_seconds: list[float] = field(default_factory=list)
    complaints: list[Complaint] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    def __str__(self) -> str:
        found = Counter(complaint.wrong for complaint in self.complaints)
        verdict = ", ".join(f"{found[wrong]} {wrong.value}" for wrong in Wrong)
        times = self.recoveries_seconds or [0.0]
        recovery = f"min {min(times):.3f}, median {statistics.median(times):.3f}, max {max(times):.3f} s"
        lines = [
            f"kill -9: {self.kills} kills, {self.kills_before_ready} of them before it was ready again",
            f"  {self.acknowledged} acknowledged appends; {verdict}",
            f"  recovery, from exec to ready: {recovery}",
            f"  {', '.join(f'{count} {what}' for what, count in sorted(self.counts.items()))}",
            f"  {self.seconds:.0f} s, seed {self.seed} (MILLSTREAM_CRASH_SEED)",
            *(str(complaint) for complaint in self.complaints[:COMPLAINTS_SHOWN_MAX]),
        ]
        return "\n".join(lines)


class Campaign:
    def __init__(self, server: Server, kills: int, seed: str) -> None:
        self.server = server
        self.kills = kills
        self.rng = World(0, seed).random("campaign")
        self.world = World(server.port, seed)
        self.report = Report(seed, complaints=self.world.complaints, counts=self.world.counts)
        self.wires: list[Wire] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.start_seconds = 0.0

    async def run(self) -> Report:
        started = time.monotonic()
        self.server.spawn()
        self.start_seconds = await self._ready()
        try:
            await self._begin()
            while self.report.kills < self.kills and not self.world.complaints:
                await self._cycle()
            if not self.world.complaints:
                await self._finale()
        finally:
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)
        counts, streams = self.world.counts, self.world.history.streams
        self.report.acknowledged = counts.pop("acknowledged", 0)
        counts["unanswered appends found"] = sum(stream.found_there for stream in streams)
        counts["unanswered appends not found"] = sum(stream.found_missing for stream in streams)
        self.report.seconds = time.monotonic() - started
        return self.report

    async def _begin(self) -> None:
        writers = cast_of_writers(self.world)
        await self.world.fill_slots()
        self.wires = [writer.wire for writer in writers]
        self.tasks = [asyncio.create_task(writer.run()) for writer in writers]
        readers = [Reader(self.world, f"reader{number}") for number in range(READERS)]
        self.tasks += [asyncio.create_task(reader.run()) for reader in readers]

    async def _cycle(self) -> None:
        """Load, a kill (or several, the later ones before the server is ready), a restart, an examination."""
        self.world.go.set()
        await self._kill_after(self.rng.uniform(*UNDER_LOAD_SECONDS))
        typical = statistics.median([self.start_seconds, *self.report.recoveries_seconds])
        while self.report.kills < self.kills and self.rng.random() < RECOVERY_KILL_CHANCE:
            self.server.spawn()
            await self._kill_after(self.rng.uniform(0.3, 1.05) * typical, recovering=True)
        self.world.go.clear()
        self.server.spawn()
        self.report.recoveries_seconds.append(await self._ready())
        await self._parked()
        await examine_all(self.world)
        await self.world.fill_slots()

    async def _finale(self) -> None:
        """Some load without a kill, a clean stop, and a last look at everything."""
        self.world.go.set()
        await asyncio.sleep(0.5)
        self.world.stopping = True
        await self._parked()
        await examine_all(self.world, everything=True, producers_continue=True)
        code = await asyncio.to_thread(self.server.terminate)
        if code != 0:
            self.world.complaints.append(Complaint(Wrong.ANSWER, "server", f"SIGTERM: it ended with {code}"))
        self.server.spawn()
        await self._ready()
        await examine_all(self.world, everything=True)
        if "Traceback (most recent call last)" in self.server.log_text():
            self.world.complaints.append(Complaint(Wrong.ANSWER, "server", "a traceback in its log"))

    async def _kill_after(self, seconds: float, *, recovering: bool = False) -> None:
        """From a thread: the event loop is as busy at that moment as at any other."""

        def kill() -> tuple[bool, bool]:
            time.sleep(seconds)
            running = self.server.running
            ready = not recovering or self.server.answers_healthy()
            self.server.kill9()
            return running, ready

        running, ready = await asyncio.to_thread(kill)
        if not running:
            code = self.server.returncode
            raise AssertionError(f"the server ended by itself with {code}\n{self.server.log_end()}")
        self.report.kills += 1
        self.report.kills_before_ready += not ready

    async def _ready(self) -> float:
        return await asyncio.to_thread(self.server.wait_ready)

    async def _parked(self) -> None:
        """Until every writer waits at the gate (or has finished); what failed comes out here."""
        deadline = time.monotonic() + PARK_SECONDS_MAX
        while not all(wire.parked for wire in self.wires):
            if time.monotonic() > deadline:
                busy = [wire.name for wire in self.wires if not wire.parked]
                raise AssertionError(f"writers without an answer after {PARK_SECONDS_MAX} s: {busy}")
            await asyncio.sleep(0.005)
        for task in self.tasks:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                raise error


def cast_of_writers(world: World) -> list[Writer]:
    kinds = list(Kind)
    writers: list[Writer] = []

    def slots(name: str, number: int) -> list[Slot]:
        return [world.slot(f"{name}{index}", kinds[index % len(kinds)]) for index in range(number)]

    for slot in slots("plain", 6):
        writers += [PlainWriter(world, f"{slot.name}-w{number}", slot) for number in range(2)]
    for slot in slots("mixed", 6):
        writers += [ProducerWriter(world, f"{slot.name}-p{number}", slot) for number in range(2)]
        writers.append(PlainWriter(world, f"{slot.name}-w", slot))
    batches = world.slot("batches", Kind.JSON)
    writers.append(PlainWriter(world, "batches-w", batches, batches=True))
    writers += [ProducerWriter(world, f"batches-p{number}", batches, batches=True) for number in range(2)]
    big = world.slot("big", Kind.BYTES)
    writers += [PlainWriter(world, "big-w", big, big=True), PlainWriter(world, "small-beside-big", big)]
    writers += [SequencedWriter(world, f"{slot.name}-w", slot) for slot in slots("sequenced", 3)]
    writers += [ClosingWriter(world, f"closing{number}", kinds[number % 3]) for number in range(4)]
    writers += [DeletingWriter(world, f"deleting{number}", kinds[number % 3]) for number in range(4)]
    return writers
