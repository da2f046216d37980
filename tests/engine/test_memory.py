"""Invariant 7: memory is bounded by configuration, not by the number of streams or what they hold."""

from __future__ import annotations

from millstream.engine import CheckpointLimits, EngineLimits, Entry

from .harness import BYTES, JSON, World, key_in, small_checkpoints, story

KEY = "test/stream"


def in_memory(world: World) -> int:
    return sum(len(shard.entries) for shard in world.engine.shards)


def chunk_bytes(world: World) -> int:
    return sum(
        len(data)
        for shard in world.engine.shards
        for entry in shard.entries.values()
        for _, data, _ in entry.chunks
    )


async def another(world: World, count: int = 1) -> None:
    """Something happens elsewhere, and is saved."""
    for number in range(count):
        await world.made(f"test/another-{world.clock.now}-{number}")
    world.clock.advance(1)
    world.save()


@story
async def test_streams_at_rest_leave_memory_and_come_back_as_they_were() -> None:
    world = World(EngineLimits(entries_max=8))
    keys = [f"test/s{number}" for number in range(20)]
    for key in keys:
        await world.made(key, ttl_seconds=1000)
        await world.appended(key, b"", ("p", 1, 0), closes=key.endswith("3"))
    before = world.picture(*keys)
    await world.flush()
    assert in_memory(world) <= 8
    assert world.picture(*keys) == before
    assert (await world.appended(keys[0], b"", ("p", 1, 0), closes=True)).status == 204


@story
async def test_streams_with_bytes_leave_memory_too() -> None:
    world = World(EngineLimits(entries_max=8))
    for number in range(20):
        await world.made(f"test/s{number}", b"a few bytes")
    await world.flush()
    for _ in range(5):
        await another(world)
    assert in_memory(world) <= 12


@story
async def test_streams_that_were_only_read_leave_memory_too() -> None:
    world = World(EngineLimits(entries_max=8))
    for number in range(20):
        await world.made(f"test/s{number}")
    await world.flush()
    for number in range(20):
        await world.look(f"test/s{number}").success()
    for _ in range(5):
        await another(world)
    assert in_memory(world) <= 12


@story
async def test_names_that_were_only_asked_for_take_no_memory() -> None:
    world = World()
    for number in range(20):
        assert await world.look(f"test/s{number}").code() == "stream_not_found"
        assert await world.append(f"test/s{number}", b"x").code() == "stream_not_found"
    assert in_memory(world) == 0


@story
async def test_removed_streams_leave_memory_with_the_checkpoint_that_removes_them() -> None:
    world = World()
    for number in range(20):
        await world.made(f"test/s{number}")
    await world.flush()
    for number in range(20):
        await world.delete(f"test/s{number}").success()
    await world.flush()
    assert in_memory(world) == 0


@story
async def test_a_stream_with_unsaved_changes_or_a_waiter_stays() -> None:
    world = World(EngineLimits(entries_max=1))
    await world.made(KEY)

    class Reader:
        def wake(self, entry: Entry) -> None:
            pass

    reader = Reader()
    entry = world.entry(KEY)
    world.engine.watch(entry, reader)
    await world.flush()
    await another(world)
    assert world.entry(KEY) is entry
    world.engine.unwatch(entry, reader)
    await world.appended(KEY, b"x")
    assert world.entry(KEY) is entry and entry.durable is not None and entry.durable.tail == 1


@story
async def test_a_stream_whose_commit_is_in_flight_stays_through_a_checkpoint() -> None:
    world = World(EngineLimits(entries_max=1, checkpoint=CheckpointLimits(memory_bytes=0)))
    await world.made(KEY)
    with world.gate():
        append = world.append(KEY, b"x")
        await world.settled()
        world.save()
        again = world.append(KEY, b"y")
    await append.success()
    await again.success()
    assert world.read(KEY) == b"xy"


@story
async def test_saved_bytes_stay_within_the_memory_budget_and_are_read_from_blocks() -> None:
    world = World(small_checkpoints(memory_bytes=10_000))
    for number in range(10):
        await world.made(key_in(number % 4, number), bytes([number]) * 4000)
        world.save()
    assert chunk_bytes(world) <= 10_000
    for number in range(10):
        assert world.read(key_in(number % 4, number)) == bytes([number]) * 4000


@story
async def test_unsaved_bytes_stay_in_memory_whatever_the_budget() -> None:
    world = World(small_checkpoints(memory_bytes=0))
    await world.made(KEY, b"saved")
    world.save()
    await world.appended(KEY, b"-unsaved")
    assert chunk_bytes(world) == len(b"-unsaved")
    assert world.read(KEY) == b"saved-unsaved"


@story
async def test_many_small_appends_become_few_chunks_at_a_checkpoint() -> None:
    world = World()
    await world.made(KEY)
    for number in range(200):
        await world.appended(KEY, b"%03d" % number, content_type=BYTES)
    ends = world.ends(KEY)
    world.save()
    assert len(world.entry(KEY).chunks) <= 2
    assert world.ends(KEY) == ends == list(range(3, 603, 3))


@story
async def test_a_long_read_is_handed_out_in_pieces() -> None:
    world = World(small_checkpoints(memory_bytes=0))
    body = bytes(range(256)) * 12_000
    await world.made(KEY, body)
    await world.flush()
    pieces = list(world.engine.reads.pieces(world.state(KEY), 0, len(body)))
    assert b"".join(pieces) == body
    assert max(len(piece) for piece in pieces) <= 512 << 10


async def evictable_fork() -> tuple[World, str, str]:
    """A JSON fork at rest, the next to leave memory; its ancestor in the same shard is not there."""
    world = World(EngineLimits(entries_max=4, checkpoint=CheckpointLimits(memory_bytes=0)))
    ancestor, fork, other = (key_in(0, number) for number in range(3))
    await world.made(other)
    await world.made(ancestor, b"[1,2]", content_type=JSON)
    await world.fork(fork, ancestor).success()
    await world.flush()
    world.engine.shards[0].entries.clear()
    world.engine.shards[0]._resting.clear()
    world.entry(fork), world.entry(other)
    return world, ancestor, fork


@story
async def test_a_source_stays_in_memory_while_a_fork_of_it_is_decided() -> None:
    world, _, fork = await evictable_fork()
    await world.fork(key_in(1), fork, "2").success()
    assert len(world.state(fork).holds) == 1
    await world.flush()
    assert len(world.crash().state(fork).holds) == 1


@story
async def test_a_source_stays_in_memory_while_its_ancestors_are_read_one_after_another() -> None:
    world = World(EngineLimits(entries_max=4, checkpoint=CheckpointLimits(memory_bytes=0)))
    root, middle, source, other = (key_in(0, number) for number in range(4))
    await world.made(other)
    await world.made(root, b"[1,2]", content_type=JSON)
    await world.fork(middle, root).success()
    await world.appended(middle, b"[3,4]", content_type=JSON)
    await world.fork(source, middle).success()
    await world.flush()
    await world.fork(key_in(1), source, "2", sub_offset=2).success()
    assert world.read(key_in(1)) == b"1,2,3,"
    assert len(world.state(source).holds) == 1
    await world.flush()
    assert len(world.crash().state(source).holds) == 1


@story
async def test_a_stream_that_is_being_looked_at_is_still_the_one_that_writers_change() -> None:
    world, _, fork = await evictable_fork()
    entry = await world.look(fork).success()
    assert not world.engine.reads.is_boundary(world.state(fork), 1), "the ancestor is loaded"
    seen: list[int] = []

    class Reader:
        def wake(self, entry: Entry) -> None:
            assert entry.durable is not None
            seen.append(entry.durable.tail)

    world.engine.watch(entry, Reader())
    await world.appended(fork, b"[3]", content_type=JSON)
    assert seen == [6]
