"""Checkpoints hold what is durable and nothing else; the journal goes only after a flush (§7)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from millstream.engine import RecoveryFailed
from millstream.store import KeyspaceStore
from millstream.store.memory import MemoryMap

from .harness import SHARDS, GatedJournal, World, key_in, small_checkpoints, story

KEY = "test/stream"


@story
async def test_a_checkpoint_never_contains_speculative_state() -> None:
    world = World()
    await world.made(KEY, b"durable")
    with world.gate() as journal:
        world.append(KEY, b"-ahead", ("p", 0, 0), stream_seq="a")
        world.append(KEY, b"", ("p", 0, 1), closes=True)
        world.create("test/ahead")
        await world.settled()
        world.save()
        saved = KeyspaceStore(world.values)
        loaded = saved.load(world.shard(KEY).index, KEY)
        assert loaded is not None
        state, footing = loaded
        assert (state.tail, state.closed, state.stream_seq, state.producers) == (7, False, None, {})
        assert footing.saved_to == 7
        assert saved.load(world.shard("test/ahead").index, "test/ahead") is None
        journal.lose()
        await world.settled()
    assert world.crash().read(KEY) == b"durable"


@story
async def test_a_stream_whose_deletion_is_in_flight_stays_in_the_checkpoint() -> None:
    world = World()
    await world.made(KEY, b"kept")
    with world.gate() as journal:
        world.delete(KEY)
        await world.settled()
        world.save()
        assert KeyspaceStore(world.values).load(world.shard(KEY).index, KEY) is not None
        journal.lose()
        await world.settled()
    assert world.read(KEY) == b"kept"


@story
async def test_the_journal_is_trimmed_after_a_flush_and_not_before() -> None:
    world = World()
    for number in range(5):
        await world.made(f"test/{number}")
    world.save()
    assert len(world.journal.records) == 5
    await world.flush()
    assert world.journal.records == []
    assert world.crash().engine.replayed == 0


@story
async def test_what_became_durable_during_a_flush_is_not_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    await world.made(KEY, b"1")
    flushed = threading.Event()
    flush = world.values.flush

    def slow_flush() -> None:
        flush()
        assert flushed.wait(3)

    monkeypatch.setattr(world.values, "flush", slow_flush)
    world.engine._checkpoints.begin_flush()
    await world.settled()
    await world.appended(KEY, b"2")
    world.save()
    flushed.set()
    while world.engine._checkpoints._flush is not None:
        await asyncio.sleep(0.001)
    assert len(world.journal.records) == 1
    assert world.crash().read(KEY) == b"12"


@story
async def test_a_flush_that_fails_trims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    await world.made(KEY, b"x")

    def fails() -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(world.values, "flush", fails)
    world.engine._checkpoints.begin_flush()
    await world.settled()
    assert len(world.journal.records) == 1
    assert world.crash().read(KEY) == b"x"


@story
async def test_enough_new_bytes_begin_a_checkpoint() -> None:
    world = World(small_checkpoints(shard_bytes=1000))
    await world.made(KEY)
    assert world.store.applied(world.shard(KEY).index).sequence == 0
    await world.appended(KEY, bytes(2000))
    assert world.store.applied(world.shard(KEY).index).sequence == 2


@story
async def test_enough_changed_streams_begin_a_checkpoint() -> None:
    world = World(small_checkpoints(shard_streams=3))
    for number in range(3):
        await world.made(key_in(0, number))
    assert world.store.applied(0).sequence == 3


@story
async def test_enough_journal_begins_a_flush_by_itself() -> None:
    world = World(small_checkpoints(journal_bytes=10_000))
    await world.made(KEY)
    for _ in range(30):
        await world.appended(KEY, bytes(1000))
    while world.engine._checkpoints._flush is not None:
        await world.settled()
    assert world.journal.bytes_held() < 20_000
    assert world.crash().read(KEY) == bytes(30_000)


class FailingMap(MemoryMap):
    """A map whose next write fails, as a full disk or `no_slowdown` makes it."""

    fails_next = False

    def write(self, batch: Any) -> None:
        if self.fails_next:
            self.fails_next = False
            raise OSError("the disk is full")
        super().write(batch)


@story
async def test_a_checkpoint_that_fails_once_loses_nothing() -> None:
    values = FailingMap()
    world = World(values=values)
    await world.made(KEY, b"one")
    values.fails_next = True
    with pytest.raises(OSError, match="full"):
        world.save()
    await world.appended(KEY, b"-two")
    await world.flush()
    assert world.crash().read(KEY) == b"one-two"


@story
async def test_a_journal_whose_end_is_missing_refuses_the_start() -> None:
    world = World()
    await world.made(KEY)
    await world.flush()
    with pytest.raises(RecoveryFailed, match="the end of the journal is missing"):
        World(journal=GatedJournal(SHARDS), values=world.values.crash())


@story
async def test_a_journal_whose_middle_is_missing_refuses_the_start() -> None:
    world = World()
    for body in (b"1", b"2", b"3"):
        await world.made(KEY) if world.durable(KEY) is None else await world.appended(KEY, body)
    survivor = world.journal.survivor()
    del survivor.records[1]
    with pytest.raises(RecoveryFailed, match="a part of the journal is missing"):
        World(journal=survivor, values=world.values.crash())


@story
async def test_a_stop_saves_everything() -> None:
    world = World()
    await world.engine.start()
    await world.made(KEY, b"x")
    pending = world.append(KEY, b"y")
    await world.engine.stop()
    assert (await pending.success()).status == 204
    after = World(journal=world.journal.survivor(), values=world.values.crash(), clock=world.clock)
    assert after.engine.replayed == 0
    assert after.read(KEY) == b"xy"
