"""Chunks: stored bytes at a position, with the ends of the messages in them.

Ends are relative to the chunk's first byte; None says that the chunk is exactly one message. A
message may reach over several chunks: then only the last of them has its end.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from .ends import TYPECODE, packed, shifted, unpacked
from .facts import Ends

Chunk = tuple[int, bytes, Ends]


def join(chunks: Sequence[Chunk]) -> Chunk:
    """Neighbours as one."""
    if len(chunks) == 1:
        return chunks[0]
    start = chunks[0][0]
    singles: list[int] = []  # the ends of one-message chunks in a row
    pieces: list[bytes] = []
    for at, data, inner in chunks:
        if inner is None:
            singles.append(at - start + len(data))
        else:
            if singles:
                pieces.append(packed(singles))
                singles = []
            pieces.append(shifted(inner, at - start))
    if singles:
        pieces.append(packed(singles))
    return start, b"".join([data for _, data, _ in chunks]), unpacked(b"".join(pieces))


def cut(chunk: Chunk, size_max: int, end_weight: int = 0) -> Iterator[Chunk]:
    """A chunk in pieces of at most this size; `end_weight` says what each end but one counts."""
    start, data, ends = chunk
    all_ends = (len(data),) if ends is None else ends
    if len(data) + end_weight * (len(all_ends) - 1) <= size_max:
        yield chunk
        return
    at = first = 0
    while at < len(data):
        size = min(size_max, len(data) - at)
        last = bisect_right(all_ends, at + size)
        while (weight := size + end_weight * (last - first - 1)) > size_max and size > 1:
            size = max(1, size * size_max // weight)
            last = bisect_right(all_ends, at + size)
        inside = all_ends[first:last]
        yield start + at, data[at : at + size], array(TYPECODE, [end - at for end in inside])
        at, first = at + size, last


def regroup(chunks: Sequence[Chunk], size_max: int) -> Iterator[Chunk]:
    """The same bytes in as few chunks as the size allows."""
    if chunks and chunks[-1][0] + len(chunks[-1][1]) - chunks[0][0] <= size_max:
        yield join(chunks)
        return
    group: list[Chunk] = []
    length = 0
    for chunk in chunks:
        for piece in cut(chunk, size_max):
            size = len(piece[1])
            if group and length + size > size_max:
                yield join(group)
                group, length = [], 0
            group.append(piece)
            length += size
    if group:
        yield join(group)
