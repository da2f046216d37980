"""What every store promises, whatever map it stands on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.contracts import Applied, Removal, StoreDamaged, StreamChange
from millstream.protocol.facts import ForkOrigin, ProducerTuple
from millstream.protocol.state import Life
from millstream.store import KeyspaceStore
from millstream.store.keyspace import BLOCK_BYTES_MAX, RUN_BLOCKS_MAX, OrderedMap

from .stores import FailingWrites, Saver, checkpoint, ends_of, opened, raw

Opened = tuple[KeyspaceStore, OrderedMap]


@pytest.fixture(params=["memory", "rocks"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opened]:
    with opened(request.param, tmp_path) as found:
        yield found


def test_a_new_store_has_applied_nothing_and_holds_nothing(pair: Opened) -> None:
    store, _ = pair
    assert store.applied(3) == Applied()
    assert store.load(0, "test/s") is None
    assert (store.due(0, 1 << 60, 10), store.held(0), store.holds_refused(0)) == ([], [], set())


def test_a_stream_is_loaded_as_it_was_saved(pair: Opened) -> None:
    store, _ = pair
    saver = Saver(store)
    state = saver.state
    state.closed, state.closer, state.stream_seq = True, ProducerTuple("p/é", 1, 2), "zz"
    state.ttl_seconds, state.deadline_us = 60, 99
    state.expires_at, state.expires_at_us = "2030-01-01T00:00:00Z", 1
    state.origin = ForkOrigin("test/a", 5, (("test/a", 5, 0),), "now", 3, "7:test/s")
    state.holds, state.life = frozenset({"8:test/t", "9:x/y"}), Life.ENDED
    state.created_at_us, state.last_write_at_us = 10, 20
    saver.add(b"bytes")
    producers = {"p/é": (1, 2, 5), "": (0, 0, 0)}
    saver.save(producers)
    loaded = store.load(0, "test/s")
    assert loaded is not None
    found, footing = loaded
    for name in type(state).__slots__:
        if name not in ("producers", "_base"):
            assert getattr(found, name) == getattr(state, name), name
    assert found.producers == producers
    assert footing == saver.footing
    assert store.applied(0) == Applied(1, 11, 2, 2, 5, 6)
    assert store.load(1, "test/s") is None, "another shard's"


def test_blocks_cover_exactly_what_was_asked_for_whole_and_in_order(pair: Opened) -> None:
    store, _ = pair
    saver, expected = Saver(store), b""
    for number in range(40):
        data = bytes([number]) * (number * 700 + 1)
        saver.add(data)
        saver.save()
        expected += data
    size = len(expected)
    for start, end in [(0, size), (0, 1), (size - 1, size), (1, 2), (5000, 5001), (100, 300_000), (7, size)]:
        chunks = saver.blocks(start, end)
        first, last = chunks[0], chunks[-1]
        assert first[0] <= start < first[0] + len(first[1])
        assert last[0] < end <= last[0] + len(last[1])
        assert b"".join(data for _, data, _ in chunks) == expected[first[0] : last[0] + len(last[1])]
    assert saver.blocks(5, 5) == []


def test_message_ends_are_the_same_however_blocks_were_cut_and_merged(pair: Opened) -> None:
    store, _ = pair
    saver, ends = Saver(store), []
    for number in range(60):
        at = saver.state.tail
        saver.add(b"abcdef", [1, 3, 6] if number % 2 else None)
        ends += [at + end for end in ([1, 3, 6] if number % 2 else [6])]
        saver.save()
    saver.add(bytes(3 * BLOCK_BYTES_MAX), [10, BLOCK_BYTES_MAX, 3 * BLOCK_BYTES_MAX])
    ends += [
        saver.state.tail - 3 * BLOCK_BYTES_MAX + end for end in (10, BLOCK_BYTES_MAX, 3 * BLOCK_BYTES_MAX)
    ]
    saver.save()
    assert ends_of(saver.blocks(0, saver.state.tail)) == ends


def test_runs_of_small_blocks_are_merged(pair: Opened) -> None:
    store, values = pair
    saver = Saver(store)
    for _ in range(20 * RUN_BLOCKS_MAX):
        saver.add(b"small")
        saver.save()
        assert len(raw(values, b"b")) <= RUN_BLOCKS_MAX + 1
    assert (
        b"".join(data for _, data, _ in saver.blocks(0, saver.state.tail)) == b"small" * 20 * RUN_BLOCKS_MAX
    )


def test_blocks_are_never_larger_than_the_limit(pair: Opened) -> None:
    store, _ = pair
    saver = Saver(store)
    for size in (1, BLOCK_BYTES_MAX, 1, 5 * BLOCK_BYTES_MAX + 3, 100_000, 100_000, 100_000):
        saver.add(bytes(size))
        saver.save()
    assert max(len(data) for _, data, _ in saver.blocks(0, saver.state.tail)) <= BLOCK_BYTES_MAX


def test_only_changed_producers_are_written(pair: Opened) -> None:
    store, values = pair
    saver = Saver(store)
    saver.save({f"p{number}": (0, number, 0) for number in range(50)})
    before = raw(values, b"p")
    saver.save({"p7": (1, 0, 9)})
    changed = [key for key, value in raw(values, b"p").items() if before[key] != value]
    assert len(before) == 50 and len(changed) == 1
    loaded = store.load(0, "test/s")
    assert loaded is not None
    assert loaded[0].producers["p7"] == (1, 0, 9) and len(loaded[0].producers) == 50


@pytest.mark.parametrize("keep_name", [False, True])
def test_a_removal_is_complete_and_touches_nobody_else(pair: Opened, keep_name: bool) -> None:
    store, values = pair
    saver = Saver(store)
    neighbours = [Saver(store, "test/r", 6), Saver(store, "test/t", 8), Saver(store, "test/s", 7, shard=1)]
    for each in (saver, *neighbours):
        each.state.deadline_us, each.state.holds = 50, frozenset({"9:a/b"})
        each.add(bytes(300_000))
        each.save({"p": (0, 0, 0)})
    before = {kind: raw(values, kind) for kind in (b"m", b"b", b"p", b"x", b"r")}
    saver.remove(keep_name=keep_name)
    gone = {kind: len(before[kind]) - len(raw(values, kind)) for kind in before}
    assert gone == {b"m": 0 if keep_name else 1, b"b": 2, b"p": 1, b"x": 1, b"r": 1}
    for each in neighbours:
        assert len(each.blocks(0, 300_000)) == 2
        assert store.load(each.shard, each.state.key) is not None
    with pytest.raises(StoreDamaged):
        saver.blocks(0, 1)


def test_a_successor_of_the_same_name_in_the_same_checkpoint_stays(pair: Opened) -> None:
    store, _ = pair
    old, new = Saver(store), Saver(store, incarnation=8)
    old.state.deadline_us = new.state.deadline_us = 50
    old.add(b"old")
    old.save({"p": (3, 3, 3)})
    new.add(b"new")
    removal = Removal("test/s", 7, old.footing, True)
    checkpoint(store, 0, [StreamChange(new.state, new.footing, new.unsaved, {})], [removal])
    loaded = store.load(0, "test/s")
    assert loaded is not None and loaded[0].incarnation == 8 and loaded[0].producers == {}
    assert [data for _, data, _ in new.blocks(0, 3)] == [b"new"]
    assert store.due(0, 100, 10) == [(50, "test/s")]


def test_the_deadlines_index_follows_every_change(pair: Opened) -> None:
    store, _ = pair
    first, second = Saver(store, "test/a", 1), Saver(store, "test/b", 2)
    first.state.deadline_us, second.state.deadline_us = 100, 50
    first.save()
    second.save()
    assert store.due(0, 1000, 10) == [(50, "test/b"), (100, "test/a")]
    assert store.due(0, 100, 10) == [(50, "test/b")]
    assert store.due(0, 1000, 1) == [(50, "test/b")]
    second.state.deadline_us = 500
    second.save()
    assert store.due(0, 1000, 10) == [(100, "test/a"), (500, "test/b")]
    second.state.deadline_us = None
    second.save()
    first.save()
    assert store.due(0, 1000, 10) == [(100, "test/a")]


def test_the_index_of_held_streams_and_the_refused_holds(pair: Opened) -> None:
    store, _ = pair
    saver = Saver(store)
    saver.save()
    assert store.held(0) == []
    saver.state.holds = frozenset({"9:a/b"})
    saver.save()
    assert store.held(0) == ["test/s"]
    saver.state.holds = frozenset()
    saver.save()
    assert store.held(0) == []
    checkpoint(store, 0, [], holds_refused=["5:a/b", "6:c/d"])
    assert (store.holds_refused(0), store.holds_refused(1)) == ({"5:a/b", "6:c/d"}, set())


@pytest.mark.parametrize("at", [0, 9, 12, 40])
def test_a_damaged_block_is_detected_and_named(pair: Opened, at: int) -> None:
    store, values = pair
    saver = Saver(store)
    saver.add(bytes(100), [50, 100])
    saver.save()
    ((key, value),) = raw(values, b"b").items()
    batch = values.batch()
    batch.put(key, value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :])
    values.write(batch)
    with pytest.raises(StoreDamaged, match=r"incarnation 7.*position 0"):
        saver.blocks(0, 100)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_block_is_detected(pair: Opened, missing: int) -> None:
    store, values = pair
    saver = Saver(store)
    for _ in range(3):
        saver.add(bytes(BLOCK_BYTES_MAX))
    saver.save()
    batch = values.batch()
    batch.delete(sorted(raw(values, b"b"))[missing])
    values.write(batch)
    with pytest.raises(StoreDamaged, match="no block holds"):
        saver.blocks(0, 3 * BLOCK_BYTES_MAX)


def test_a_checkpoint_that_failed_can_be_repeated_and_loses_nothing(pair: Opened) -> None:
    _, values = pair
    failing = FailingWrites(values)
    saver = Saver(KeyspaceStore(failing))
    saver.add(b"one")
    saver.state.deadline_us, saver.state.holds = 50, frozenset({"9:a/b"})
    failing.fails_next = True
    with pytest.raises(OSError, match="full"):
        saver.save()
    saver.add(b"-two")
    saver.save()
    assert b"".join(data for _, data, _ in saver.blocks(0, 7)) == b"one-two"
    assert saver.store.due(0, 100, 10) == [(50, "test/s")]
    assert saver.store.held(0) == ["test/s"]
