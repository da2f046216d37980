"""A record's body, a stream's value and a block's: what is written is what is read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.contracts import Footing, StoreDamaged
from millstream.protocol.facts import (
    KIND_OF,
    Appended,
    Created,
    Ended,
    Fact,
    ForkOrigin,
    HoldAdded,
    HoldRefused,
    HoldReleased,
    Part,
    ProducerTuple,
    Touched,
)
from millstream.protocol.records import decode_columns, encode, facts_of
from millstream.protocol.state import Life, StreamState
from millstream.store import keys
from millstream.store.values import decode_block, decode_stream, encode_block, encode_stream

NUMBERS = st.integers(0, 2**53)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
MAYBE_NUMBER, MAYBE_NAME = st.none() | NUMBERS, st.none() | NAMES
DATA = st.binary(max_size=30)
ENDS = st.none() | st.lists(st.integers(0, 2**32 - 1), max_size=5)
PRODUCERS = st.none() | st.builds(ProducerTuple, NAMES, NUMBERS, NUMBERS)
LINEAGE = st.lists(st.tuples(NAMES, NUMBERS, NUMBERS), min_size=1, max_size=3).map(tuple)
ORIGINS = st.none() | st.builds(ForkOrigin, NAMES, NUMBERS, LINEAGE, MAYBE_NAME, NUMBERS, NAMES)
TYPES = st.sampled_from(["text/plain", "application/json", "a/b; c=é"])
STREAM_NAMES = st.tuples(NAMES, NUMBERS, TYPES)

FACTS: dict[type, st.SearchStrategy[Fact]] = {
    Created: st.builds(
        Created,
        TYPES,
        MAYBE_NUMBER,
        MAYBE_NAME,
        MAYBE_NUMBER,
        MAYBE_NUMBER,
        st.booleans(),
        ORIGINS,
        DATA,
        ENDS,
        NUMBERS,
    ),
    Appended: st.builds(
        Appended, NUMBERS, DATA, ENDS, PRODUCERS, MAYBE_NAME, st.booleans(), MAYBE_NUMBER, NUMBERS
    ),
    Touched: st.builds(Touched, NUMBERS),
    Ended: st.builds(Ended, st.booleans(), st.booleans()),
    HoldAdded: st.builds(HoldAdded, NAMES),
    HoldReleased: st.builds(HoldReleased, NAMES, st.booleans()),
    HoldRefused: st.builds(HoldRefused, NAMES),
    Part: st.builds(Part, NUMBERS.map(lambda number: number + 1), DATA, ENDS),
}
ITEMS = st.lists(st.tuples(STREAM_NAMES, st.one_of(*FACTS.values())), max_size=12)


def plain(name: Any, fact: Fact) -> Any:
    """Comparable: ends as lists; a creation's content type is that of its stream."""
    fields = {field: getattr(fact, field) for field in fact.__struct_fields__}
    if fields.get("ends") is not None:
        fields["ends"] = list(fields["ends"])
    if isinstance(fact, Created):
        fields["content_type"] = name[2]
    return tuple(name), type(fact), fields


def test_every_kind_of_fact_has_a_strategy_here_and_a_number_of_its_own() -> None:
    assert set(FACTS) == set(KIND_OF)
    assert sorted(KIND_OF.values()) == list(range(1, len(KIND_OF) + 1))


@given(NUMBERS, ITEMS)
def test_a_record_is_read_as_it_was_written(at_us: int, items: list[Any]) -> None:
    columns, values = decode_columns(encode(at_us, items))
    assert columns.at_us == at_us
    assert [plain(*item) for item in facts_of(columns, values)] == [plain(*item) for item in items]


def test_names_stand_once_and_values_one_behind_the_other() -> None:
    name = ("test/stream", 7, "text/plain")
    body = encode(5, [(name, Appended(n, b"value%d" % n)) for n in range(3)])
    assert body.count(b"test/stream") == 1
    assert body.endswith(b"value0value1value2")


@st.composite
def states(draw: st.DrawFn) -> StreamState:
    state = StreamState(draw(NAMES), draw(NUMBERS), draw(TYPES))
    state.life, state.tail = draw(st.sampled_from(Life)), draw(NUMBERS)
    state.closed, state.closer = draw(st.booleans()), draw(PRODUCERS)
    state.stream_seq, state.ttl_seconds = draw(MAYBE_NAME), draw(MAYBE_NUMBER)
    state.expires_at, state.expires_at_us = draw(MAYBE_NAME), draw(MAYBE_NUMBER)
    state.deadline_us, state.origin = draw(MAYBE_NUMBER), draw(ORIGINS)
    state.holds = draw(st.frozensets(NAMES, max_size=3))
    state.created_at_us, state.last_write_at_us = draw(NUMBERS), draw(NUMBERS)
    return state


@given(states(), st.builds(Footing, NUMBERS, NUMBERS, NUMBERS, MAYBE_NUMBER, st.booleans()))
def test_a_streams_value_is_read_as_it_was_written(state: StreamState, footing: Footing) -> None:
    found, where = decode_stream(state.key, encode_stream(state, footing))
    assert where == footing
    for name in StreamState.__slots__:
        assert getattr(found, name) == getattr(state, name), name


@given(states())
def test_a_speculative_copy_has_every_field_of_its_original(state: StreamState) -> None:
    ahead = state.ahead()
    for name in StreamState.__slots__:
        if name != "_base":
            assert getattr(ahead, name) == getattr(state, name), name


@given(NUMBERS, DATA, ENDS)
def test_a_block_is_read_as_it_was_written(start: int, data: bytes, ends: list[int] | None) -> None:
    at, found, found_ends = decode_block(start, encode_block(data, ends), "here")
    assert (at, found, None if found_ends is None else list(found_ends)) == (start, data, ends)


@given(DATA, ENDS, st.data())
def test_any_flipped_bit_of_a_block_is_noticed(
    data: bytes, ends: list[int] | None, more: st.DataObject
) -> None:
    block = bytearray(encode_block(data, ends))
    bit = more.draw(st.integers(0, 8 * len(block) - 1))
    block[bit // 8] ^= 1 << bit % 8
    with pytest.raises(StoreDamaged, match="here"):
        decode_block(0, bytes(block), "here")


@given(st.integers(0, 65535), NUMBERS, NUMBERS, NAMES)
def test_keys_are_read_as_they_were_written(shard: int, incarnation: int, number: int, name: str) -> None:
    assert keys.block_start(keys.block(shard, incarnation, number)) == number
    assert keys.producer_id(keys.producer(shard, incarnation, name)) == name
    assert keys.deadline_of(keys.deadline(shard, number, name)) == (number, name)
    assert keys.text_after_kind(keys.meta(shard, name)) == name
    assert (
        keys.text_after_kind(keys.held(shard, name))
        == keys.text_after_kind(keys.refused(shard, name))
        == name
    )


@given(st.tuples(st.integers(0, 65535), NUMBERS, NUMBERS), st.tuples(st.integers(0, 65535), NUMBERS, NUMBERS))
def test_blocks_sort_by_shard_then_stream_then_position(
    a: tuple[int, int, int], b: tuple[int, int, int]
) -> None:
    assert (keys.block(*a) < keys.block(*b)) == (a < b)


@given(st.integers(0, 65535), NUMBERS, NAMES)
def test_a_kinds_range_holds_every_key_of_the_kind_and_no_other(shard: int, number: int, name: str) -> None:
    mine = {
        b"m": keys.meta(shard, name),
        b"b": keys.block(shard, number, number),
        b"p": keys.producer(shard, number, name),
        b"x": keys.deadline(shard, number, name),
        b"r": keys.held(shard, name),
        b"n": keys.refused(shard, name),
        b"a": keys.applied(shard),
    }
    for kind in mine:
        start, end = keys.kind_range(shard, kind)
        assert {other for other, key in mine.items() if start <= key < end} == {kind}
