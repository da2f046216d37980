"""Offsets, and the positions of a stream and its lineage that they name (amendments §5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.errors import Refused
from millstream.protocol.offsets import Beginning, Now, Offset, format_offset, parse_offset
from millstream.protocol.positions import incarnation_at, offset_at, resolve

from .states import INCARNATION, origin, stream

NUMBERS = st.integers(0, 10**16 - 1)


@given(NUMBERS.filter(bool), NUMBERS)
def test_an_offset_is_read_as_it_was_written(incarnation: int, position: int) -> None:
    text = format_offset(incarnation, position)
    assert len(text) == 33
    assert parse_offset(text) == parse_offset(text.replace("-", "_")) == Offset(incarnation, position)


@given(st.tuples(NUMBERS, NUMBERS), st.tuples(NUMBERS, NUMBERS))
def test_offsets_sort_as_text_like_their_numbers(a: tuple[int, int], b: tuple[int, int]) -> None:
    assert (format_offset(*a) < format_offset(*b)) == (a < b)


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("-1", Beginning),
        ("now", Now),
        ("0", Offset(None, 0)),
        ("007", Offset(None, 7)),
        ("9" * 20, Offset(None, 10**20 - 1)),
        (f"{0:016d}-{5:016d}", Offset(None, 5)),
    ],
)
def test_other_forms_that_are_accepted(text: str, token: object) -> None:
    assert parse_offset(text) == token


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "+1", "-2", "--1", "Now", "1.0", "9" * 21, "1" * 16 + "-" + "1" * 15, "٣", "1\n", "²",
     "1" * 16 + "-" + "1" * 16 + "\n", "1" * 16 + "=" + "1" * 16, "0x10", "1_000", "-", "now\n"],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(Refused) as refusal:
        parse_offset(text)
    assert refusal.value.code == "invalid_offset"


FAMILY = stream(tail=30, origin=origin(("a/root", 100, 10), ("a/fork", 200, 20)), incarnation=300)


@pytest.mark.parametrize(
    ("position", "incarnation"), [(0, 100), (1, 100), (10, 100), (11, 200), (20, 200), (21, 300), (30, 300)]
)
def test_an_offset_of_a_fork_carries_the_incarnation_that_wrote_the_byte_before_it(
    position: int, incarnation: int
) -> None:
    assert incarnation_at(FAMILY, position) == incarnation
    assert offset_at(FAMILY, position) == format_offset(incarnation, position)
    assert resolve(FAMILY, Offset(incarnation, position)) == position


@pytest.mark.parametrize(("incarnation", "position"), [(200, 10), (300, 10), (100, 11), (300, 20), (200, 21)])
def test_any_other_pair_belongs_to_another_stream(incarnation: int, position: int) -> None:
    with pytest.raises(Refused) as refusal:
        resolve(FAMILY, Offset(incarnation, position))
    assert (refusal.value.code, refusal.value.status) == ("offset_gone", 410)


def test_a_lineage_may_inherit_nothing() -> None:
    empty = stream(tail=5, origin=origin(("a/root", 100, 0)), incarnation=300)
    assert (incarnation_at(empty, 0), incarnation_at(empty, 1)) == (100, 300)


def test_a_position_without_an_incarnation_is_one_of_the_current_stream() -> None:
    state = stream(tail=10)
    assert [resolve(state, token) for token in (Beginning, Now, Offset(None, 4))] == [0, 10, 4]
    assert resolve(FAMILY, Offset(None, 15)) == 15


@pytest.mark.parametrize("incarnation", [None, INCARNATION])
def test_a_position_behind_the_tail_is_refused_and_the_tail_is_named(incarnation: int | None) -> None:
    state = stream(tail=10)
    assert resolve(state, Offset(incarnation, 10)) == 10
    with pytest.raises(Refused) as refusal:
        resolve(state, Offset(incarnation, 11))
    assert (refusal.value.code, refusal.value.status) == ("offset_past_tail", 400)
    assert refusal.value.headers["Stream-Next-Offset"] == offset_at(state, 10)
