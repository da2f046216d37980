"""Message ends in bulk: packed as 32-bit numbers, shifted all at once.

A batch of a hundred messages has a hundred ends. Adding to each of them in a Python loop costs more
than the rest of an append, so the packed array is taken as one large integer: adding `base` to
every lane is one addition of `base * 0x…00000001_00000001`. Lanes cannot overflow into each other
as long as every end stays below 2^32; a chunk is far smaller.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence
from functools import lru_cache

TYPECODE = "I"
WIDTH = 4
CACHED_COUNT_MAX = 4096


def packed(ends: Sequence[int]) -> bytes:
    return (ends if isinstance(ends, array) else array(TYPECODE, ends)).tobytes()


def unpacked(data: bytes | memoryview) -> array[int]:
    ends = array(TYPECODE)
    ends.frombytes(data)
    return ends


def shifted(ends: Sequence[int], base: int) -> bytes:
    """Every end plus `base`, packed."""
    data = packed(ends)
    if not base:
        return data
    count = len(ends)
    return _add(data, base * _lanes(count), count)


def with_commas(lengths: array[int]) -> array[int]:
    """Ends of messages, from sums of their lengths, when each is followed by one comma."""
    count = len(lengths)
    return unpacked(_add(lengths.tobytes(), _ramp(count), count))


def _add(data: bytes, lanes: int, count: int) -> bytes:
    return (int.from_bytes(data, sys.byteorder) + lanes).to_bytes(WIDTH * count, sys.byteorder)


def _lanes(count: int) -> int:
    return _cached_lanes(count) if count <= CACHED_COUNT_MAX else _make_lanes(count)


def _ramp(count: int) -> int:
    return _cached_ramp(count) if count <= CACHED_COUNT_MAX else _make_ramp(count)


def _make_lanes(count: int) -> int:
    return int.from_bytes(array(TYPECODE, [1]) * count, sys.byteorder)


def _make_ramp(count: int) -> int:
    return int.from_bytes(array(TYPECODE, range(1, count + 1)), sys.byteorder)


_cached_lanes = lru_cache(maxsize=512)(_make_lanes)
_cached_ramp = lru_cache(maxsize=512)(_make_ramp)
