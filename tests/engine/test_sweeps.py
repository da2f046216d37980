"""Streams whose time has come are found though nobody asks for them, however many others there are."""

from __future__ import annotations

import pytest

from millstream.engine import expiry

from .harness import World, key_in, small_checkpoints, story

FIRST, SECOND = key_in(0), key_in(0, 1)


async def swept(world: World) -> None:
    world.clock.advance(expiry.STORE_SWEEP_SECONDS)
    world.engine._expiry.sweep()
    await world.settled()


@story
async def test_expired_sources_that_live_for_their_forks_do_not_hide_others_that_are_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expiry, "SWEEP_STREAMS_MAX", 2)
    world = World()
    for number in range(2, 4):
        await world.made(key_in(0, number), ttl_seconds=10)
        await world.fork(key_in(1, number), key_in(0, number), ttl_seconds=10**6).success()
    await world.made(FIRST, ttl_seconds=100)
    world.clock.advance(20)
    await swept(world)
    await world.flush()
    after = world.crash()
    await after.engine.start()
    after.clock.advance(100)
    await swept(after)
    assert after.durable(FIRST) is None


@story
async def test_a_stream_that_is_touched_for_long_is_watched_once() -> None:
    world = World()
    await world.made(FIRST, ttl_seconds=50)
    await world.flush()
    for _ in range(20):
        await swept(world)
        await world.look(FIRST).success()
    assert len(world.engine._expiry._heap) <= 2
    world.clock.advance(50)
    await swept(world)
    assert world.durable(FIRST) is None


@story
async def test_streams_with_a_far_deadline_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "WATCHED_STREAMS_MAX", 3)
    world = World(small_checkpoints(shard_streams=1))
    keys = [f"test/{number}" for number in range(20)]
    for key in keys:
        await world.made(key, ttl_seconds=1000)
    assert len(world.engine._expiry._heap) == 3
    world.clock.advance(1200)
    await swept(world)
    assert [key for key in keys if world.durable(key) is not None] == []


@story
async def test_a_name_that_is_taken_again_is_watched_for_its_new_and_nearer_deadline() -> None:
    world = World()
    await world.made(FIRST, ttl_seconds=10_000)
    await world.delete(FIRST).success()
    await world.made(FIRST, ttl_seconds=20)
    await world.made(SECOND)
    await swept(world)
    assert (world.durable(FIRST), world.durable(SECOND) is None) == (None, False)
