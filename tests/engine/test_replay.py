"""Invariants 1 and 4: after a crash at any point, replay gives the state that was durable."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from .harness import JSON, World, key_in, small_checkpoints, story

KEYS = [key_in(shard, number) for shard in range(3) for number in range(2)]


async def everything(world: World) -> None:
    """One of every kind of fact."""
    await world.made(KEYS[0], b"[1,2]", content_type=JSON, ttl_seconds=100)
    await world.made(KEYS[1], b"begin")
    await world.appended(KEYS[0], b'[{"a":1}, 3]', ("p", 0, 0), content_type=JSON)
    await world.appended(KEYS[1], b"-more", ("q", 3, 0), stream_seq="s1")
    await world.fork(KEYS[2], KEYS[1], sub_offset=0).success()
    await world.appended(KEYS[2], b"-forked")
    await world.made(KEYS[3], b"short life")
    await world.delete(KEYS[3]).success()
    await world.made(KEYS[3], b"second life")
    world.clock.advance(50)
    await world.look(KEYS[0]).success()
    await world.appended(KEYS[1], b"", ("q", 3, 1), closes=True)
    await world.delete(KEYS[1]).success()
    await world.made(KEYS[4], b"brief", ttl_seconds=1)
    world.clock.advance(2)
    assert await world.look(KEYS[4]).code() == "stream_not_found"


@story
async def test_a_crash_before_any_checkpoint_replays_to_the_same_state() -> None:
    world = World()
    await everything(world)
    assert world.crash().picture(*KEYS) == world.picture(*KEYS)


@story
async def test_a_checkpoint_that_was_not_flushed_is_replayed_from_the_journal() -> None:
    world = World()
    await everything(world)
    world.save()
    assert world.crash().picture(*KEYS) == world.picture(*KEYS)


@story
async def test_a_flushed_checkpoint_and_the_journal_behind_it_give_the_same_state() -> None:
    world = World()
    await everything(world)
    await world.flush()
    await world.appended(KEYS[0], b"[9]", ("p", 0, 1), content_type=JSON)
    await world.appended(KEYS[2], b"-later")
    after = world.crash()
    assert after.picture(*KEYS) == world.picture(*KEYS)
    assert after.engine.replayed == 2


@story
async def test_a_second_crash_during_recovery_changes_nothing() -> None:
    world = World()
    await everything(world)
    first = world.crash()
    second = first.crash()
    assert first.picture(*KEYS) == second.picture(*KEYS) == world.picture(*KEYS)


@story
async def test_a_producers_memory_survives_replay_and_checkpoint() -> None:
    world = World()
    await world.made(KEYS[0])
    for seq in range(3):
        await world.appended(KEYS[0], b"x", ("p", 7, seq))
    await world.flush()
    await world.appended(KEYS[0], b"x", ("p", 7, 3))
    for after in (world, world.crash(), world.crash().crash()):
        assert (await after.appended(KEYS[0], b"x", ("p", 7, 3))).status == 204
        assert await after.append(KEYS[0], b"x", ("p", 7, 5)).code() == "producer_gap"
        assert await after.append(KEYS[0], b"x", ("p", 6, 0)).code() == "stale_epoch"


@story
async def test_what_was_in_flight_at_the_crash_is_absent_or_whole() -> None:
    world = World()
    await world.made(KEYS[0], b"kept")
    with world.gate() as journal:
        append = world.append(KEYS[0], b"-lost")
        await world.settled()
        assert append.pending
        assert world.crash().read(KEYS[0]) == b"kept"
        journal.lose_the_news()
        assert world.crash().read(KEYS[0]) == b"kept-lost"
        await append.success()


@story
async def test_each_start_takes_a_new_epoch_and_the_hash_chain_goes_on() -> None:
    world = World()
    await world.made(KEYS[0])
    after = world.crash()
    await after.appended(KEYS[0], b"x")
    first, second = after.journal.records
    assert second.epoch > first.epoch
    assert second.previous_hash == first.hash
    assert second.sequence > first.sequence
    assert after.crash().read(KEYS[0]) == b"x"


def _steps(seed: int) -> Iterator[tuple[str, str, bytes]]:
    dice = random.Random(seed)
    for number in range(60):
        key = dice.choice(KEYS)
        kind = dice.choices(["append", "create", "delete", "save", "flush", "fork"], [12, 4, 2, 2, 1, 2])[0]
        yield kind, key, b"%d." % number


@pytest.mark.parametrize("seed", range(6))
@story
async def test_a_random_history_is_the_same_after_a_crash_at_every_tenth_step(seed: int) -> None:
    world = World(small_checkpoints(memory_bytes=64))
    said: dict[str, bytes] = {}
    for number, (kind, key, body) in enumerate(_steps(seed)):
        if kind == "append" and await world.append(key, body).code() == "ok":
            said[key] += body
        elif kind == "create" and await world.create(key, body).code() == "ok":
            said.setdefault(key, body)
        elif kind == "delete" and await world.delete(key).code() == "ok":
            del said[key]
        elif kind == "fork" and key != KEYS[0] and await world.fork(key, KEYS[0]).code() == "ok":
            said.setdefault(key, said[KEYS[0]])
        elif kind == "save":
            world.save()
        elif kind == "flush":
            await world.flush()
        await world.settled()
        if number % 10 == 9:
            before = world.picture(*KEYS)
            world = world.crash()
            assert world.picture(*KEYS) == before
            alive = {key for key in KEYS if await world.look(key).code() == "ok"}
            assert {key: world.read(key) for key in alive} == said
