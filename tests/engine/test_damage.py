"""A store that fails for one stream, or for a while, costs that stream or that while and nothing more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from millstream.contracts import StoreDamaged
from millstream.engine import CheckpointLimits, EngineLimits
from millstream.engine import engine as engines
from millstream.protocol.errors import MillstreamError
from millstream.store.keyspace import RUN_BLOCKS_MAX

from .harness import World, key_in, story

BAD, GOOD = key_in(0), key_in(0, 1)


def damage_blocks(world: World) -> None:
    """One bit of every stored block flips."""
    for key, value in list(world.values._values.items()):
        if key[2:3] == b"b":
            world.values._values[key] = value[:-1] + bytes([value[-1] ^ 1])


def unreadable(world: World, monkeypatch: pytest.MonkeyPatch, *bad: str) -> None:
    """The states of these streams are damaged."""
    load = world.store.load

    def may_fail(shard: int, key: str) -> Any:
        if key in bad:
            raise StoreDamaged("bits have flipped")
        return load(shard, key)

    monkeypatch.setattr(world.store, "load", may_fail)


@story
async def test_a_damaged_block_does_not_keep_its_shard_from_being_saved() -> None:
    world = World()
    await world.made(BAD)
    await world.made(GOOD)
    for _ in range(RUN_BLOCKS_MAX - 1):
        await world.appended(BAD, b"x")
        world.save()
    damage_blocks(world)
    for _ in range(3):
        await world.appended(BAD, b"y")
        await world.appended(GOOD, b"z")
        world.save()
    await world.flush()
    assert world.journal.records == [], "the journal is trimmed"
    after = world.crash()
    assert after.read(GOOD) == b"zzz"
    with pytest.raises(StoreDamaged):
        after.read(BAD)
    state = after.state(BAD)
    assert b"".join(after.engine.reads.pieces(state, state.tail - 2, state.tail)) == b"yy"


@story
async def test_an_answer_that_fails_keeps_no_other_request_of_its_commit_waiting() -> None:
    world = World()
    await world.made(GOOD)

    def fails(answer: object) -> None:
        raise StoreDamaged("bits have flipped")

    with world.gate() as journal:
        world.append(GOOD, b"1")
        record = world.shard(GOOD).open
        assert record is not None
        record.callbacks.append((fails, None))
        other = world.append(GOOD, b"2")
        await world.settled()
        journal.let_through()
        assert await other.code() == "ok"
        lost = world.append(GOOD, b"3")
        record = world.shard(GOOD).open
        assert record is not None
        record.callbacks.insert(0, (fails, None))
        await world.settled()
        journal.lose()
        assert await lost.code() == "not_applied"
    await world.appended(GOOD, b"4")


class FailingReader:
    def wake(self, entry: object) -> None:
        raise StoreDamaged("bits have flipped")


@story
async def test_a_reader_that_cannot_be_woken_keeps_nobody_from_his_answer() -> None:
    world = World()
    await world.made(GOOD)
    world.engine.watch(world.entry(GOOD), FailingReader())
    await world.appended(GOOD, b"1")


@story
async def test_a_parked_request_is_told_that_its_stream_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(EngineLimits(in_flight_bytes=1000, admission_wait_seconds=2))
    await world.made(GOOD)
    unreadable(world, monkeypatch, BAD)
    world.journal.shut = True
    world.append(GOOD, bytes(2000))
    parked, behind = world.append(BAD, b"x"), world.append(GOOD, b"y")
    await world.settled()
    world.journal.shut = False
    world.journal.let_through()
    assert await parked.code() == "storage_damaged"
    assert await behind.code() == "ok"


@story
async def test_a_large_body_is_refused_when_its_stream_cannot_be_loaded_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    await world.made(BAD)
    await world.flush()
    large = world.append(BAD, bytes(1 << 20))
    unreadable(world, monkeypatch, BAD)
    world.shard(BAD).entries.pop(BAD)
    assert await large.code() == "storage_damaged"
    assert (world.shard(BAD).parts, world.engine._context.large_bytes) == ({}, 0)


@story
async def test_what_is_due_is_looked_for_again_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "SWEEP_SECONDS", 0.01)
    world = World()
    await world.made(BAD, ttl_seconds=10)
    await world.made(GOOD, ttl_seconds=20)
    await world.flush()
    await world.engine.start()
    unreadable(world, monkeypatch, BAD)
    world.shard(BAD).entries.pop(BAD)
    world.clock.advance(30)
    await asyncio.sleep(0.1)
    assert world.durable(GOOD) is None
    await world.engine.stop()


@story
async def test_a_flush_that_failed_is_tried_again_though_nobody_can_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engines, "SWEEP_SECONDS", 0.01)
    monkeypatch.setattr("millstream.engine.checkpoints.RETRY_SECONDS", 0.01)
    limits = EngineLimits(admission_wait_seconds=0.05, checkpoint=CheckpointLimits(journal_bytes=1000))
    world = World(limits)
    await world.engine.start()
    await world.made(GOOD)
    broken, flush = True, world.values.flush

    def may_fail() -> None:
        if broken:
            raise OSError("the disk is full")
        flush()

    monkeypatch.setattr(world.values, "flush", may_fail)
    await world.appended(GOOD, bytes(3000))
    assert await world.append(GOOD, b"x").code() == "overloaded"
    broken = False
    await asyncio.sleep(0.1)
    await world.appended(GOOD, b"y")
    await world.engine.stop()


@story
async def test_a_damaged_source_is_told_to_who_forks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    with world.gate():
        made = world.create(BAD, b"x")
        fork = world.fork(GOOD, BAD)

        def fails(*_: object) -> None:
            raise StoreDamaged("bits have flipped")

        monkeypatch.setattr("millstream.engine.creating.origin_for", fails)
    assert (await made.success()).status == 201
    outcome = await fork.outcome()
    assert isinstance(outcome, MillstreamError) and outcome.code == "storage_damaged"
