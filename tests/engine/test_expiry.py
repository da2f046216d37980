"""Time to live: windows slide by touches, are journalled coarsely, and a crash never shortens one (§2)."""

from __future__ import annotations

import pytest

from millstream.protocol.creates import window_deadline

from .harness import SECOND_US, World, key_in, story

KEY = "test/stream"
TTL = 160  # an eighth is 20 s, a sixteenth 10 s


async def alive(world: World) -> bool:
    return await world.look(KEY, touches=False).code() == "ok"


def touches(world: World) -> int:
    return world.facts().count((KEY, "Touched"))


@story
async def test_a_stream_expires_exactly_when_its_window_has_passed() -> None:
    world = World()
    await world.made(KEY, ttl_seconds=TTL)
    world.clock.advance(TTL - 0.001)
    assert await alive(world)
    world.clock.advance(0.001)
    assert not await alive(world)
    assert world.facts()[-1] == (KEY, "Ended")


@story
async def test_a_touching_look_and_an_append_restart_the_window_a_head_does_not() -> None:
    world = World()
    await world.made(KEY, ttl_seconds=TTL)
    for act in (world.look(KEY), world.append(KEY, b"x")):
        await act.success()
        world.clock.advance(TTL - 1)
        await world.look(KEY).success()
    world.clock.advance(TTL - 1)
    await world.look(KEY, touches=False).success()
    world.clock.advance(1)
    assert not await alive(world)


@story
async def test_a_refused_append_restarts_the_window_too() -> None:
    world = World()
    await world.made(KEY, ttl_seconds=TTL)
    world.clock.advance(TTL - 1)
    assert await world.append(KEY, b"x", content_type="text/plain").code() == "content_type_mismatch"
    world.clock.advance(TTL - 1)
    assert await alive(world)


@story
async def test_a_repeated_put_does_not_restart_the_window() -> None:
    world = World()
    await world.made(KEY, ttl_seconds=TTL)
    world.clock.advance(TTL - 1)
    assert (await world.create(KEY, ttl_seconds=TTL).success()).status == 200
    world.clock.advance(1)
    assert not await alive(world)


@story
async def test_touches_are_journalled_coarsely() -> None:
    world = World()
    await world.made(KEY, ttl_seconds=TTL)
    for _ in range(9):
        world.clock.advance(1)
        await world.look(KEY).success()
    assert touches(world) == 0, "now + window is still more than window/16 below what is journalled"
    world.clock.advance(2)
    await world.look(KEY).success()
    await world.settled()
    assert touches(world) == 1
    assert world.state(KEY).deadline_us == window_deadline(TTL, world.clock.now)


@story
async def test_a_touch_within_what_is_journalled_does_not_wait() -> None:
    world = World()
    await world.made(KEY, ttl_seconds=TTL)
    world.clock.advance(15)
    with world.gate():
        assert await world.look(KEY).code() == "ok"


@story
async def test_a_touch_beyond_what_is_journalled_waits_until_it_is_durable() -> None:
    world = World()
    await world.made(KEY, ttl_seconds=TTL)
    world.clock.advance(30)
    with world.gate() as journal:
        look = world.look(KEY)
        await world.settled()
        assert look.pending
        journal.let_through()
        await look.success()


@story
async def test_a_touch_that_fails_is_not_promised() -> None:
    world = World()
    await world.made(KEY, ttl_seconds=TTL)
    world.clock.advance(30)
    with world.gate() as journal:
        look = world.look(KEY)
        await world.settled()
        journal.lose()
        assert await look.code() == "not_applied"
    await world.look(KEY).success()
    after = world.crash()
    world.clock.advance(TTL - 1)
    assert await alive(after)


@pytest.mark.parametrize("step", [1, 7, 11, 19, 23, 100, 159])
@story
async def test_a_crash_never_shortens_a_window_and_lengthens_it_by_an_eighth_at_most(step: int) -> None:
    world = World()
    await world.made(KEY, ttl_seconds=TTL)
    for _ in range(12):
        world.clock.advance(step)
        await world.look(KEY).success()
        state = world.crash().state(KEY)
        assert state.deadline_us is not None
        window_end = world.clock.now + TTL * SECOND_US
        assert window_end <= state.deadline_us <= window_end + TTL * SECOND_US // 8


@story
async def test_an_absolute_expiry_is_never_extended() -> None:
    world = World()
    await world.made(KEY, expires_at="x", expires_at_us=world.clock.now + 10 * SECOND_US)
    world.clock.advance(9)
    await world.appended(KEY, b"x")
    await world.look(KEY).success()
    world.clock.advance(1)
    assert not await alive(world)


@story
async def test_ttl_0_and_a_past_instant_are_created_and_then_expired() -> None:
    world = World()
    await world.made(KEY, ttl_seconds=0)
    assert not await alive(world)
    await world.made("test/past", expires_at="x", expires_at_us=1)
    assert await world.look("test/past").code() == "stream_not_found"


@story
async def test_an_expiry_is_answered_when_it_is_durable_and_fails_otherwise() -> None:
    world = World()
    await world.made(KEY, b"x", ttl_seconds=TTL)
    world.clock.advance(TTL)
    with world.gate() as journal:
        answers = [world.look(KEY), world.append(KEY, b"y"), world.delete(KEY)]
        await world.settled()
        assert all(answer.pending for answer in answers)
        assert world.read(KEY) == b"x", "nobody was told yet"
        journal.lose()
        assert {await answer.code() for answer in answers} == {"not_applied"}
    assert not await alive(world)


@story
async def test_the_sweep_ends_streams_that_nobody_asks_for() -> None:
    world = World()
    keys = [key_in(shard) for shard in range(4)]
    for key in keys:
        await world.made(key, ttl_seconds=TTL)
    world.clock.advance(TTL)
    world.engine._expiry.sweep()
    await world.settled()
    assert [world.durable(key) for key in keys] == [None] * 4


@story
async def test_the_sweep_spares_a_stream_that_was_touched() -> None:
    world = World()
    await world.made(KEY, ttl_seconds=TTL)
    world.clock.advance(TTL - 1)
    await world.look(KEY).success()
    world.clock.advance(2)
    world.engine._expiry.sweep()
    await world.settled()
    assert await alive(world)
    world.clock.advance(TTL)
    world.engine._expiry.sweep()
    await world.settled()
    assert world.durable(KEY) is None


@story
async def test_the_sweep_finds_streams_that_are_only_in_the_store() -> None:
    world = World()
    await world.made(KEY, ttl_seconds=TTL)
    await world.flush()
    after = world.crash()
    await after.engine.start()
    after.clock.advance(2 * TTL)
    after.engine._expiry.sweep()
    await after.settled()
    assert after.facts() == [(KEY, "Ended")]


@story
async def test_a_stream_made_on_an_expired_name_is_not_taken_for_the_old_one_while_in_flight() -> None:
    world = World()
    await world.made(KEY, b"old", ttl_seconds=1)
    world.clock.advance(2)
    with world.gate():
        created = world.create(KEY, b"new", ttl_seconds=TTL)
        appended = world.append(KEY, b"-more")
    assert (await created.success()).status == 201
    assert await appended.code() == "ok"
    assert world.read(KEY) == b"new-more"


@story
async def test_a_reader_during_a_creation_on_an_expired_name_does_not_expire_it() -> None:
    world = World()
    await world.made(KEY, ttl_seconds=1)
    world.clock.advance(2)
    with world.gate():
        created = world.create(KEY, b"new")
        world.look(KEY)
    assert (await created.success()).status == 201
    await world.settled()
    assert world.durable(KEY) is not None
    assert world.read(KEY) == b"new"
