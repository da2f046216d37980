"""Chunks and message ends in bulk: cutting and joining changes neither bytes nor message ends."""

from __future__ import annotations

from array import array
from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.chunks import Chunk, cut, join, regroup
from millstream.protocol.ends import packed, shifted, unpacked, with_commas

MESSAGES = st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=12)


@st.composite
def runs(draw: st.DrawFn) -> list[Chunk]:
    """Neighbouring chunks, some of one message, some of many, some of a message's piece."""
    chunks: list[Chunk] = []
    at = draw(st.integers(0, 1000))
    for messages in draw(st.lists(MESSAGES, min_size=1, max_size=6)):
        data = b"".join(messages)
        ends = list(accumulate(len(message) for message in messages))
        shape = draw(st.sampled_from(["list", "array", "open"] + ["none"] * (len(messages) == 1)))
        if shape == "open":
            ends = ends[:-1]
        chunks.append((at, data, None if shape == "none" else array("I", ends) if shape == "array" else ends))
        at += len(data)
    return chunks


def flat(chunks: list[Chunk]) -> tuple[int, bytes, list[int]]:
    ends = [at + end for at, data, inner in chunks for end in ([len(data)] if inner is None else inner)]
    return chunks[0][0], b"".join(data for _, data, _ in chunks), ends


def neighbours(chunks: list[Chunk]) -> bool:
    starts = accumulate((len(data) for _, data, _ in chunks), initial=chunks[0][0])
    return all(chunk[0] == start for chunk, start in zip(chunks, starts, strict=False))


@given(runs())
def test_join_keeps_bytes_and_ends(chunks: list[Chunk]) -> None:
    assert flat([join(chunks)]) == flat(chunks)


@given(runs(), st.integers(1, 20))
def test_cut_keeps_bytes_and_ends_and_the_limit(chunks: list[Chunk], size_max: int) -> None:
    chunk = join(chunks)
    pieces = list(cut(chunk, size_max))
    assert flat(pieces) == flat([chunk]) and neighbours(pieces)
    assert max(len(data) for _, data, _ in pieces) <= size_max


@given(runs(), st.integers(1, 60))
def test_regroup_keeps_bytes_and_ends_in_few_chunks_below_the_limit(
    chunks: list[Chunk], size_max: int
) -> None:
    groups = list(regroup(chunks, size_max))
    assert flat(groups) == flat(chunks) and neighbours(groups)
    sizes = [len(data) for _, data, _ in groups]
    assert max(sizes) <= size_max
    assert all(a + b > size_max for a, b in pairwise(sizes)) or len(sizes) > 2


def test_a_chunk_of_one_message_stays_one() -> None:
    assert list(regroup([(5, b"abc", None)], 10)) == [(5, b"abc", None)]
    assert list(regroup([], 10)) == []


@given(st.lists(st.integers(0, 2**31), max_size=50), st.integers(0, 2**31 - 1))
def test_shifting_in_bulk_is_adding_to_each(ends: list[int], base: int) -> None:
    assert list(unpacked(shifted(ends, base))) == [end + base for end in ends]
    assert list(unpacked(packed(array("I", ends)))) == ends


@given(st.lists(st.integers(1, 1000), max_size=50))
def test_commas_are_counted_into_the_ends(lengths: list[int]) -> None:
    expected = list(accumulate(length + 1 for length in lengths))
    assert list(with_commas(array("I", accumulate(lengths)))) == expected


@pytest.mark.parametrize("count", [4096, 4097, 250_000])
def test_many_ends_are_shifted_too(count: int) -> None:
    ends = array("I", range(count))
    assert unpacked(shifted(ends, 7)) == array("I", range(7, count + 7))
