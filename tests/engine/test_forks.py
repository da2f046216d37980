"""Forks: a source keeps what its forks inherit, and nothing longer (ARCHITECTURE §3, amendments §2)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millstream.engine import EngineLimits
from millstream.protocol.appends import AppendRequest
from millstream.protocol.offsets import format_offset
from millstream.protocol.state import Life

from .harness import BYTES, JSON, World, key_in, story

SOURCE, FORK, GRANDCHILD = key_in(0), key_in(1), key_in(2)


async def family() -> World:
    """Source, fork and grandchild, each in a shard of its own."""
    world = World()
    await world.made(SOURCE, b"source|")
    await world.fork(FORK, SOURCE).success()
    await world.appended(FORK, b"fork|")
    await world.fork(GRANDCHILD, FORK).success()
    await world.appended(GRANDCHILD, b"grandchild")
    return world


def alive(world: World, *keys: str) -> list[bool]:
    return [world.durable(key) is not None for key in keys]


@story
async def test_a_fork_inherits_across_shards_and_goes_its_own_way() -> None:
    world = await family()
    await world.appended(SOURCE, b"later")
    assert world.read(SOURCE) == b"source|later"
    assert world.read(FORK) == b"source|fork|"
    assert world.read(GRANDCHILD) == b"source|fork|grandchild"


@pytest.mark.parametrize("flushed", [False, True])
@story
async def test_a_family_is_the_same_after_a_crash(flushed: bool) -> None:
    world = await family()
    if flushed:
        await world.flush()
    keys = (SOURCE, FORK, GRANDCHILD)
    assert world.crash().picture(*keys) == world.picture(*keys)


@story
async def test_a_source_holds_one_hold_for_each_fork_in_a_shard_of_its_own() -> None:
    world = await family()
    fork = world.state(FORK)
    assert world.state(SOURCE).holds == {f"{fork.incarnation}:{FORK}"}
    assert world.state(GRANDCHILD).holds == frozenset()


@story
async def test_a_deleted_source_stays_for_its_forks_and_is_gone_for_everybody_else() -> None:
    world = await family()
    await world.delete(SOURCE).success()
    assert world.state(SOURCE).life is Life.ENDED
    for answer in (world.look(SOURCE), world.append(SOURCE, b"x"), world.delete(SOURCE)):
        assert await answer.code() == "stream_gone"
    assert await world.create(SOURCE).code() == "stream_deleted_with_forks"
    assert await world.fork("test/late", SOURCE).code() == "source_deleted"
    assert world.read(GRANDCHILD) == b"source|fork|grandchild"
    assert world.crash().read(GRANDCHILD) == b"source|fork|grandchild"


@story
async def test_the_last_fork_takes_its_deleted_ancestors_with_it() -> None:
    world = await family()
    await world.delete(SOURCE).success()
    await world.delete(FORK).success()
    assert alive(world, SOURCE, FORK, GRANDCHILD) == [True, True, True]
    await world.delete(GRANDCHILD).success()
    await world.settled()
    assert alive(world, SOURCE, FORK, GRANDCHILD) == [False, False, False]
    await world.made(SOURCE, b"a fresh stream")
    await world.flush()
    assert {key[2:3] for key, _ in world.values.scan(b"", b"\xff")} == {b"a", b"b", b"m"}
    assert len(list(world.values.scan(b"\0\0b", b"\0\0c"))) == 1, "no block but the fresh stream's"


@story
async def test_a_living_source_outlives_its_forks() -> None:
    world = await family()
    await world.delete(FORK).success()
    await world.delete(GRANDCHILD).success()
    await world.settled()
    assert alive(world, SOURCE, FORK, GRANDCHILD) == [True, False, False]
    assert world.state(SOURCE).holds == frozenset()
    await world.delete(SOURCE).success()
    assert world.durable(SOURCE) is None


@story
async def test_an_expired_source_counts_as_deleted() -> None:
    world = World()
    await world.made(SOURCE, b"x", ttl_seconds=10)
    await world.fork(FORK, SOURCE, ttl_seconds=1000).success()
    world.clock.advance(11)
    assert await world.look(SOURCE).code() == "stream_gone"
    assert world.read(FORK) == b"x"
    world.clock.advance(1000)
    assert await world.look(FORK).code() == "stream_not_found"
    await world.settled()
    assert world.durable(SOURCE) is None


def _refused() -> Iterator[tuple[str, dict[str, object], str]]:
    yield "past the tail", {"offset": f"{0:016d}-{999:016d}"}, "invalid_fork"
    yield "another stream's offset", {"offset": format_offset(5, 1)}, "invalid_fork"
    yield "overshoot", {"sub_offset": 99}, "invalid_fork"
    yield "content type", {"content_type": "text/plain"}, "content_type_mismatch"


@pytest.mark.parametrize(("more", "code"), [case[1:] for case in _refused()], ids=[c[0] for c in _refused()])
@story
async def test_a_refused_fork_leaves_no_hold(more: dict[str, str], code: str) -> None:
    world = World()
    await world.made(SOURCE, b"bytes")
    assert await world.fork(FORK, SOURCE, **more).code() == code
    assert world.state(SOURCE).holds == frozenset()
    assert (SOURCE, "HoldAdded") not in world.facts()


@story
async def test_a_fork_that_loses_its_name_to_another_creation_releases_its_hold() -> None:
    world = World()
    await world.made(SOURCE, b"bytes")
    with world.gate():
        fork = world.fork(FORK, SOURCE)
        await world.settled()
        world.create(FORK, b"quicker")
    assert await fork.code() == "stream_exists"
    await world.settled()
    assert world.read(FORK) == b"quicker"
    assert world.state(SOURCE).holds == frozenset()


@story
async def test_two_equal_forks_at_once_make_one_stream_and_one_hold() -> None:
    world = World()
    await world.made(SOURCE, b"bytes")
    with world.gate():
        answers = [world.fork(FORK, SOURCE) for _ in range(2)]
        await world.settled()
    statuses = sorted([(await answer.success()).status for answer in answers])
    assert statuses == [200, 201]
    await world.settled()
    assert world.state(SOURCE).holds == {f"{world.state(FORK).incarnation}:{FORK}"}


@story
async def test_a_fork_of_json_is_cut_between_messages_only() -> None:
    world = World()
    created = await world.made(SOURCE, b"[10,20,30]", content_type=JSON)
    incarnation = int(created.next_offset.split("-")[0])
    assert await world.fork(FORK, SOURCE, format_offset(incarnation, 1)).code() == "offset_not_at_boundary"
    await world.fork(FORK, SOURCE, format_offset(incarnation, 3), sub_offset=1).success()
    assert world.read(FORK) == b"10,20,"
    assert world.ends(FORK) == [3, 6]


@story
async def test_a_fork_is_made_though_its_source_never_rests() -> None:
    world = World()
    await world.made(SOURCE)
    stopped = False

    def keep_writing(_: object = None) -> None:
        if not stopped:
            world.engine.append(SOURCE, AppendRequest(BYTES), b"y", keep_writing)

    for _ in range(3):
        keep_writing()
    await world.settled()
    fork = world.fork(FORK, SOURCE)
    for _ in range(20):
        await world.settled()
    made = not fork.pending
    stopped = True
    await world.settled()
    assert made, "the fork waits for as long as somebody writes to its source"


@story
async def test_message_ends_below_a_fork_point_are_the_same_in_memory_and_in_the_store() -> None:
    world = World()
    await world.made(SOURCE, b"abcdef")
    await world.appended(SOURCE, b"ghi")
    await world.fork(FORK, SOURCE, "3").success()
    await world.appended(FORK, b"xyz")
    in_memory = world.ends(FORK)
    await world.flush()
    assert world.ends(FORK) == in_memory
    assert world.crash().ends(FORK) == in_memory


@story
async def test_a_fork_point_between_two_parts_of_a_message_is_an_end_wherever_they_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("millstream.engine.bodies.PART_BYTES", 100)
    world = World()
    await world.made(SOURCE)
    await world.appended(SOURCE, bytes(250))
    await world.fork(FORK, SOURCE, "100").success()
    await world.appended(FORK, b"xyz")
    assert world.ends(SOURCE) == [250]
    assert world.ends(FORK) == [100, 103]
    await world.flush()
    assert world.crash().ends(FORK) == [100, 103]


@story
async def test_a_chain_of_forks_ends_at_its_depth_limit() -> None:
    world = World(EngineLimits(fork_depth_max=2))
    await world.made(SOURCE, b"1")
    await world.fork(FORK, SOURCE).success()
    await world.appended(FORK, b"2")
    await world.fork(GRANDCHILD, FORK).success()
    await world.appended(GRANDCHILD, b"3")
    refused = await world.fork(key_in(3), GRANDCHILD).outcome()
    assert getattr(refused, "code", None) == "invalid_fork"
    assert world.state(GRANDCHILD).holds == frozenset(), "a refused fork leaves no hold"
