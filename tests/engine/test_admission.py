"""Without room a request waits a little, in its order, and only then is refused with the reason (§5)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from millstream.engine import CheckpointLimits, Engine, EngineLimits
from millstream.protocol.errors import MillstreamError

from .harness import SHARDS, Answer, HandClock, SeededRandom, World, key_in, story

KEY = "test/stream"
LITTLE = EngineLimits(in_flight_bytes=1000, admission_wait_seconds=0.05)


async def full(limits: EngineLimits = LITTLE) -> tuple[World, Answer]:
    """A world whose only commit stands still, with more in flight than is allowed."""
    world = World(limits)
    await world.made(KEY)
    world.journal.shut = True
    large = world.append(KEY, bytes(2000))
    await world.settled()
    return world, large


def open_gate(world: World) -> None:
    world.journal.shut = False
    world.journal.let_through()


@story
async def test_a_request_without_room_is_parked_then_served() -> None:
    world, large = await full()
    parked = world.append(KEY, b"patient")
    await world.settled()
    assert parked.pending
    open_gate(world)
    await large.success()
    await parked.success()
    assert world.read(KEY) == bytes(2000) + b"patient"


@story
async def test_a_request_that_waited_in_vain_is_refused_with_the_reason_and_a_hint_when_to_come_back() -> (
    None
):
    world, large = await full()
    refused = await world.append(KEY, b"x").outcome()
    assert isinstance(refused, MillstreamError)
    assert (refused.code, refused.status, refused.retry_safe) == ("overloaded", 503, True)
    assert int(refused.headers["Retry-After"]) >= 1
    open_gate(world)
    await large.success()
    await world.appended(KEY, b"y")
    assert world.read(KEY) == bytes(2000) + b"y", "what was refused had no effect"


@pytest.mark.timeout(5)
@story
async def test_parked_requests_keep_their_order() -> None:
    world, _ = await full()
    parked = [world.append(KEY, b"%d" % number) for number in range(8)]
    await world.settled()
    assert all(answer.pending for answer in parked)
    open_gate(world)
    for answer in parked:
        await answer.success()
    assert world.read(KEY) == bytes(2000) + b"01234567"


@pytest.mark.timeout(5)
@story
async def test_a_request_does_not_overtake_those_that_are_parked() -> None:
    world, _ = await full()
    parked = [world.append(KEY, b"a" * 600), world.append(KEY, b"b" * 600)]
    open_gate(world)
    await asyncio.sleep(0)
    late = world.append(KEY, b"c")
    for answer in (*parked, late):
        await answer.success()
    assert world.read(KEY)[2000:] == b"a" * 600 + b"b" * 600 + b"c"


@story
async def test_requests_that_were_refused_do_not_use_up_the_room() -> None:
    world = World(LITTLE)
    await world.made(KEY)
    for _ in range(5):
        assert await world.append("test/missing", bytes(600)).code() in ("stream_not_found", "overloaded")
    assert await world.append(KEY, b"x").code() == "ok"


@story
async def test_the_bound_counts_every_record_that_waits_for_the_disk() -> None:
    limits = EngineLimits(in_flight_bytes=4 << 20, admission_wait_seconds=0.05)
    world = World(limits)
    await world.made(KEY)
    world.journal.shut = True
    bodies = [world.append(KEY, bytes(400_000)) for _ in range(10)]
    await world.settled()
    for _ in range(6):  # each commit that ends must not make room for more than it took
        world.journal.let_through()
        await world.settled()
        bodies += [world.append(KEY, bytes(400_000)) for _ in range(5)]
        shard = world.shard(KEY)
        records = [shard.open, shard.in_flight, *shard._full]
        waiting = sum(record.length for record in records if record is not None)
        assert waiting <= (4 << 20) + 500_000
        await world.settled()


@story
async def test_a_body_larger_than_the_bound_is_taken_alone() -> None:
    world = World(LITTLE)
    await world.made(KEY)
    await world.appended(KEY, bytes(5000))
    await world.appended(KEY, bytes(5000))
    assert len(world.read(KEY)) == 10_000


@story
async def test_journal_that_no_flush_has_covered_stops_appends_and_a_flush_lets_them_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = EngineLimits(admission_wait_seconds=0.05, checkpoint=CheckpointLimits(journal_bytes=1000))
    world = World(limits)
    await world.made(KEY)
    broken = True
    flush = world.values.flush

    def may_fail() -> None:
        if broken:
            raise OSError("the disk is full")
        flush()

    monkeypatch.setattr(world.values, "flush", may_fail)
    await world.appended(KEY, bytes(3000))
    assert await world.append(KEY, b"x").code() == "overloaded"
    assert await world.look(KEY).code() == "ok"
    broken = False
    await world.flush()
    await world.appended(KEY, b"y")


@story
async def test_a_deletion_needs_no_room() -> None:
    world, large = await full()
    deletion = world.delete(KEY)
    await world.settled()
    open_gate(world)
    await large.success()
    await deletion.success()


@story
async def test_a_nearly_full_disk_stops_appends_and_not_deletions(tmp_path: Path) -> None:
    world = World()
    limits = EngineLimits(admission_wait_seconds=0.01, disk_free_min_bytes=1 << 62)
    world.engine = Engine(
        world.journal, world.store, HandClock(), SeededRandom(1), SHARDS, limits, disk=tmp_path
    )
    await world.made(KEY)
    await world.engine.start()
    assert await world.append(KEY, b"x").code() == "disk_full"
    assert await world.create(key_in(1)).code() == "disk_full"
    assert await world.delete(KEY).code() == "ok"
    assert world.engine._maintenance is not None
    world.engine._maintenance.cancel()


@story
async def test_a_stopping_engine_refuses_what_is_parked_and_what_comes() -> None:
    world, large = await full(EngineLimits(in_flight_bytes=1000, admission_wait_seconds=5))
    parked = world.append(KEY, b"x")
    stop = asyncio.create_task(world.engine.stop())
    await world.settled()
    assert await parked.code() == "stopping"
    assert await world.append(KEY, b"x").code() == "stopping"
    open_gate(world)
    await large.success()
    await stop


@pytest.mark.timeout(5)
@story
async def test_who_does_not_fit_when_it_is_his_turn_stays_the_first() -> None:
    world, _ = await full(EngineLimits(in_flight_bytes=1000, admission_wait_seconds=2))
    parked = [world.append(KEY, letter * 600) for letter in (b"a", b"b")]
    parked.append(world.append(KEY, b"c"))
    open_gate(world)
    for answer in parked:
        await answer.success()
    assert world.read(KEY)[2000:] == b"a" * 600 + b"b" * 600 + b"c"


@story
async def test_nobody_waits_longer_because_it_was_his_turn_and_there_was_no_room() -> None:
    world, _ = await full(EngineLimits(in_flight_bytes=3000, admission_wait_seconds=0.2))
    world.append(KEY, bytes(990))
    parked = world.append(KEY, bytes(2500))
    for _ in range(5):
        await asyncio.sleep(0.06)
        world.engine._reconsider()
    assert await parked.code() == "overloaded"


@story
async def test_bodies_that_wait_are_bounded_by_their_bytes() -> None:
    world, large = await full(EngineLimits(1000, admission_wait_seconds=5, parked_bytes=1000))
    waiting = world.append(KEY, bytes(600))
    await world.settled()
    too_much = await world.append(KEY, bytes(600)).outcome()
    assert isinstance(too_much, MillstreamError)
    assert too_much.code == "overloaded", "1,200 bytes would wait where 1,000 may"
    open_gate(world)
    await large.success()
    await waiting.success()
    assert world.read(KEY) == bytes(2000) + bytes(600)
