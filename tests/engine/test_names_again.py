"""Nothing of an old stream is ever taken for a new one of the same name (§3), and a deletion is complete
(invariant 9)."""

from __future__ import annotations

import pytest

from millstream.engine import Entry, Vanished
from millstream.http.live import Captured, Live, LiveLimits
from millstream.http.reads import ReadPlan
from millstream.http.request import Head, HeaderBlock
from millstream.protocol.errors import Refused
from millstream.protocol.offsets import parse_offset
from millstream.protocol.positions import resolve

from .harness import SeededRandom, World, key_in, story

KEY = "test/stream"


class Onlooker:
    """A live reader who stays."""

    def wake(self, entry: Entry) -> None:
        pass


@story
async def test_every_stream_of_a_name_has_an_incarnation_of_its_own_though_the_clock_stands_still() -> None:
    world = World()
    seen = set()
    for _ in range(5):
        await world.made(KEY)
        seen.add(world.state(KEY).incarnation)
        await world.delete(KEY).success()
    assert len(seen) == 5


@pytest.mark.parametrize("flushed", [False, True])
@story
async def test_an_incarnation_is_not_used_again_after_a_crash_with_a_clock_that_went_back(
    flushed: bool,
) -> None:
    world = World()
    await world.made(KEY)
    first = world.state(KEY).incarnation
    await world.delete(KEY).success()
    if flushed:
        await world.flush()
    world.clock.advance(-3600)
    after = world.crash()
    await after.made(KEY)
    assert after.state(KEY).incarnation > first


@story
async def test_a_fork_is_younger_than_its_source_whatever_the_shards_say() -> None:
    world = World()
    source, fork = key_in(0), key_in(1)
    for _ in range(3):
        await world.made(source)
        await world.delete(source).success()
    await world.made(source)
    world.clock.advance(-3600)
    await world.fork(fork, source).success()
    assert world.state(fork).incarnation > world.state(source).incarnation


@story
async def test_deletion_and_creation_of_a_name_in_one_record() -> None:
    world = World()
    await world.made(KEY, b"old", ttl_seconds=50)
    await world.appended(KEY, b"-old", ("p", 0, 0))
    await world.flush()
    with world.gate():
        answers = [world.delete(KEY), world.create(KEY, b"new"), world.append(KEY, b"!", ("p", 0, 0))]
    assert [await answer.code() for answer in answers] == ["ok"] * 3
    kinds = [kind for _, kind in world.facts()]
    assert kinds == ["Ended", "Created", "Appended"] and len(world.journal.records) == 1
    assert world.read(KEY) == b"new!"
    assert world.crash().picture(KEY) == world.picture(KEY)
    await world.flush()
    after = world.crash()
    assert after.picture(KEY) == world.picture(KEY)
    assert after.engine.replayed == 0
    assert after.store.due(world.shard(KEY).index, 1 << 62, 10) == [], "the old deadline is gone"


@story
async def test_three_lives_in_one_record() -> None:
    world = World()
    with world.gate():
        answers = [world.create(KEY, b"1"), world.delete(KEY), world.create(KEY, b"2"), world.delete(KEY)]
        answers.append(world.create(KEY, b"3"))
    assert [await answer.code() for answer in answers] == ["ok"] * 5
    assert world.read(KEY) == b"3"
    assert world.crash().picture(KEY) == world.picture(KEY)


@story
async def test_an_offset_of_the_old_stream_is_refused_by_the_new() -> None:
    world = World()
    old = parse_offset((await world.made(KEY, b"same length")).next_offset)
    await world.delete(KEY).success()
    await world.made(KEY, b"same length")
    with pytest.raises(Refused) as refusal:
        resolve(world.state(KEY), old)
    assert refusal.value.code == "offset_gone"


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("recreated", [False, True])
@story
async def test_a_reader_of_a_deleted_stream_is_told_that_it_vanished(flushed: bool, recreated: bool) -> None:
    world = World()
    await world.made(KEY, bytes(600_000))
    state = world.state(KEY)
    if flushed:
        await world.flush()
    pieces = world.engine.reads.pieces(state, 0, state.tail)
    next(pieces)
    await world.delete(KEY).success()
    if recreated:
        await world.made(KEY, bytes(600_000))
    with pytest.raises(Vanished):
        next(pieces)


@story
async def test_a_deletion_leaves_nothing_in_the_store() -> None:
    world = World()
    await world.made(KEY, b"x" * 300_000, ttl_seconds=100)
    await world.appended(KEY, b"y", ("p", 0, 0))
    await world.flush()
    await world.delete(KEY).success()
    await world.flush()
    assert {key[2:3] for key, _ in world.values.scan(b"", b"\xff")} == {b"a"}
    after = world.crash()
    assert await after.look(KEY).code() == "stream_not_found"


@pytest.mark.parametrize("watched", [False, True])
@story
async def test_the_new_streams_readers_get_its_own_bytes_and_not_the_old_ones(watched: bool) -> None:
    """What long-polls at one place share must not outlive the stream, nor the next append."""
    world = World()
    live = _live(world)
    await world.made(KEY)
    if watched:
        world.engine.watch(world.entry(KEY), Onlooker())
    waiting = _poll(live)
    await world.appended(KEY, b"old")
    assert waiting.answer is not None and waiting.answer[2] == b"old"
    await world.delete(KEY).success()
    await world.made(KEY, b"new")
    fresh = _poll(live)
    assert fresh.answer is not None and fresh.answer[2] == b"new"


@pytest.mark.parametrize("watched", [False, True])
@story
async def test_a_long_poll_gets_everything_up_to_the_tail_though_an_earlier_one_got_less(
    watched: bool,
) -> None:
    world = World()
    live = _live(world)
    await world.made(KEY)
    if watched:
        world.engine.watch(world.entry(KEY), Onlooker())
    _poll(live)
    await world.appended(KEY, b"one")
    await world.appended(KEY, b"-two")
    later = _poll(live)
    assert later.answer is not None and later.answer[2] == b"one-two"


@story
async def test_waiters_of_a_deleted_stream_are_woken_and_find_it_gone() -> None:
    world = World()
    await world.made(KEY)
    seen: list[int | None] = []

    class Reader:
        def wake(self, entry: Entry) -> None:
            seen.append(None if entry.durable is None else entry.durable.incarnation)

    world.engine.watch(world.entry(KEY), Reader())
    incarnation = world.state(KEY).incarnation
    with world.gate():
        world.delete(KEY)
        world.create(KEY)
    await world.settled()
    assert seen and incarnation not in seen


def _live(world: World) -> Live:
    return Live(world.engine, world.clock, SeededRandom(2), LiveLimits())


def _poll(live: Live) -> Captured:
    reply = Captured()
    live.read(ReadPlan(Head("GET", b"/", b"offset=-1&live=long-poll", HeaderBlock({})), KEY), reply)
    return reply
