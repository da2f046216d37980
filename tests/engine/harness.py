"""An engine whose clock, dice, disk and crashes are in the test's hands.

`crash` gives the world that a restarted process finds: the journal's durable records, and of the store
what was flushed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from millstream.engine import CheckpointLimits, Engine, EngineLimits, Entry
from millstream.engine.shard import Shard
from millstream.protocol.appends import AppendAnswer, AppendRequest
from millstream.protocol.creates import CreateAnswer, CreateRequest, ForkRequest
from millstream.protocol.errors import MillstreamError
from millstream.protocol.facts import ProducerTuple
from millstream.protocol.offsets import parse_offset
from millstream.protocol.placement import shard_of
from millstream.protocol.records import decode_columns, facts_of
from millstream.protocol.state import StreamState
from millstream.store import KeyspaceStore, MemoryMap

from .gated import SECOND_US, GatedJournal, HandClock, SeededRandom, story

SHARDS = 4
BYTES, JSON = "application/octet-stream", "application/json"

__all__ = ["BYTES", "JSON", "SECOND_US", "SHARDS", "Answer", "GatedJournal", "HandClock", "SeededRandom"]
__all__ += ["World", "key_in", "small_checkpoints", "story"]


class Answer:
    """What `done` was told: exactly once."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self._event = asyncio.Event()

    def __call__(self, answer: Any) -> None:
        assert not self.told, "an answer is given once"
        self.told.append(answer)
        self._event.set()

    @property
    def pending(self) -> bool:
        return not self.told

    async def outcome(self) -> Any:
        await asyncio.wait_for(self._event.wait(), 3)
        return self.told[0]

    async def success(self) -> Any:
        outcome = await self.outcome()
        if isinstance(outcome, MillstreamError):
            raise outcome
        return outcome

    async def code(self) -> str:
        """The code of the error that was told; 'ok' if it was none."""
        outcome = await self.outcome()
        return outcome.code if isinstance(outcome, MillstreamError) else "ok"


class World:
    def __init__(
        self,
        limits: EngineLimits = EngineLimits(),  # noqa: B008
        journal: GatedJournal | None = None,
        values: MemoryMap | None = None,
        clock: HandClock | None = None,
        seed: int = 1,
    ) -> None:
        self.limits, self.clock, self._seed = limits, clock or HandClock(), seed
        self.journal = journal or GatedJournal(SHARDS)
        self.values = values or MemoryMap()
        self.store = KeyspaceStore(self.values)
        self.engine = Engine(self.journal, self.store, self.clock, SeededRandom(seed), SHARDS, limits)

    def crash(self) -> World:
        """Power fails now; this is what the next process opens."""
        return World(self.limits, self.journal.survivor(), self.values.crash(), self.clock, self._seed + 1)

    # --- requests ---------------------------------------------------------------------------------

    def _ask(self, call: Callable[[Answer], None]) -> Answer:
        answer = Answer()
        try:
            call(answer)
        except MillstreamError as error:
            answer(error)
        return answer

    def create(self, key: str, body: bytes = b"", content_type: str = BYTES, **more: Any) -> Answer:
        request = CreateRequest(content_type=content_type, **more)
        return self._ask(partial(self.engine.create, key, request, body))

    def fork(self, key: str, source: str, offset: str | None = None, **more: Any) -> Answer:
        token = None if offset is None else parse_offset(offset)
        fork = ForkRequest(source, token, offset, more.pop("sub_offset", 0))
        return self._ask(partial(self.engine.create, key, CreateRequest(fork=fork, **more), b""))

    def append(
        self,
        key: str,
        body: bytes,
        producer: tuple[str, int, int] | None = None,
        content_type: str = BYTES,
        **more: Any,
    ) -> Answer:
        named = None if producer is None else ProducerTuple(*producer)
        request = AppendRequest(content_type, named, **more)
        return self._ask(partial(self.engine.append, key, request, body))

    def delete(self, key: str) -> Answer:
        return self._ask(partial(self.engine.delete, key))

    def look(self, key: str, *, touches: bool = True) -> Answer:
        return self._ask(partial(self.engine.look, key, touches=touches))

    async def made(self, key: str, body: bytes = b"", **more: Any) -> CreateAnswer:
        answer: CreateAnswer = await self.create(key, body, **more).success()
        assert answer.status == 201
        return answer

    async def appended(self, key: str, body: bytes, *args: Any, **more: Any) -> AppendAnswer:
        answer: AppendAnswer = await self.append(key, body, *args, **more).success()
        return answer

    # --- looking ----------------------------------------------------------------------------------

    def shard(self, key: str) -> Shard:
        return self.engine.shards[shard_of(key, SHARDS)]

    def entry(self, key: str) -> Entry:
        entry = self.shard(key).find(key)
        assert entry is not None
        return entry

    def durable(self, key: str) -> StreamState | None:
        """The state that everybody sees."""
        entry = self.shard(key).find(key)
        return None if entry is None else entry.durable

    def state(self, key: str) -> StreamState:
        state = self.durable(key)
        assert state is not None
        return state

    def read(self, key: str) -> bytes:
        state = self.state(key)
        return b"".join(self.engine.reads.pieces(state, 0, state.tail))

    def ends(self, key: str) -> list[int]:
        state = self.state(key)
        return list(self.engine.reads.ends(state, 0, state.tail))

    def picture(self, *keys: str) -> dict[str, Any]:
        """All that a reader or a producer could learn of these streams."""
        return {key: self._portrait(key) for key in keys}

    def _portrait(self, key: str) -> Any:
        state = self.durable(key)
        if state is None:
            return None
        fields = {n: getattr(state, n) for n in StreamState.__slots__ if n not in ("_base", "producers")}
        return fields, dict(state.producers), self.read(key), self.ends(key)

    def facts(self) -> list[tuple[str, str]]:
        """Every durable fact that the journal still holds: stream, kind."""
        return [
            (name[0], type(fact).__name__)
            for record in self.journal.records
            for name, fact in facts_of(*decode_columns(record.body))
        ]

    # --- moving -----------------------------------------------------------------------------------

    async def settled(self) -> None:
        """Everything that can happen without a new request has happened."""
        for _ in range(30):
            await asyncio.sleep(0)

    def save(self) -> None:
        """A checkpoint of every shard, not yet durable."""
        for shard in self.engine.shards:
            self.engine._checkpoints.save(shard)

    async def flush(self) -> None:
        """Checkpoints, flush, trim."""
        await self.engine._checkpoints.settle()

    @contextmanager
    def gate(self) -> Iterator[GatedJournal]:
        self.journal.shut = True
        yield self.journal
        self.journal.shut = False
        if self.journal.standing is not None:
            self.journal.let_through()


def key_in(shard: int, number: int = 0) -> str:
    """A key of that shard; other numbers give others."""
    found = (f"test/s{n}" for n in range(10_000) if shard_of(f"test/s{n}", SHARDS) == shard)
    return next(key for position, key in enumerate(found) if position == number)


def small_checkpoints(**more: Any) -> EngineLimits:
    return EngineLimits(checkpoint=CheckpointLimits(**more))
