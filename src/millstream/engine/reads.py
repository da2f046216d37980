"""Bytes of a stream, wherever they are: in memory, or in blocks of the store.

A read is a slice of stored bytes. Every piece is looked up anew by (incarnation, position), memory
first: whoever moves bytes writes below before removing above, so a position is always somewhere
as long as its stream lives. A fork's inherited bytes are read where its ancestors keep them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from millstream.contracts import Store
from millstream.protocol.chunks import Chunk
from millstream.protocol.placement import shard_of
from millstream.protocol.state import StreamState

from .shard import Shard

PIECE_BYTES = 256 << 10  # what is handed to a connection at once
CACHE_BYTES = 64 << 20  # blocks read lately from the store; readers of one stream follow each other


class Vanished(Exception):
    """The stream was deleted while it was read: what was promised cannot be sent."""


class Reads:
    def __init__(self, shards: Sequence[Shard], store: Store, cache_bytes: int = CACHE_BYTES) -> None:
        self._shards, self._store = shards, store
        self._cache: dict[tuple[int, int], Chunk] = {}
        self._cache_bytes_max, self._cached = cache_bytes, 0

    def chunk(self, state: StreamState, position: int) -> Chunk:
        """The chunk that holds the byte at this position; it may reach further both ways."""
        key, incarnation, upto = state.key, state.incarnation, state.tail
        inherits = False
        if state.origin is not None:
            for ancestor, inherited, end in state.origin.lineage:
                if position < end:
                    key, incarnation, upto, inherits = ancestor, inherited, end, True
                    break
        start, data, ends = self._chunk_of(key, incarnation, position)
        over = start + len(data) - upto
        if over > 0 or (over == 0 and inherits):  # the ancestor's bytes behind the fork point are not ours
            keep = upto - start
            if ends is not None:
                ends = [*ends[: bisect_left(ends, keep)], keep]  # a fork point ends what it cuts
            return start, data[:keep], ends
        return start, data, ends

    def _chunk_of(self, key: str, incarnation: int, position: int) -> Chunk:
        index = shard_of(key, len(self._shards))
        entry = self._shards[index].find(key)
        if entry is None or entry.durable is None or entry.durable.incarnation != incarnation:
            raise Vanished(key)
        chunk = entry.chunk_at(position)
        if chunk is not None:
            return chunk
        return self._stored(index, incarnation, position, entry.footing.saved_to)

    def _stored(self, shard: int, incarnation: int, position: int, saved_to: int) -> Chunk:
        name = (shard, incarnation)
        cached = self._cache.get(name)
        if cached is not None and cached[0] <= position < cached[0] + len(cached[1]):
            return cached
        chunk = next(self._store.blocks(shard, incarnation, position, min(position + 1, saved_to)))
        self._remember(name, chunk)
        return chunk

    def _remember(self, name: tuple[int, int], chunk: Chunk) -> None:
        """The last block that was read of each stream."""
        old = self._cache.pop(name, None)
        if old is not None:
            self._cached -= len(old[1])
        self._cache[name] = chunk
        self._cached += len(chunk[1])
        while self._cached > self._cache_bytes_max:
            oldest = next(iter(self._cache))
            self._cached -= len(self._cache.pop(oldest)[1])

    def piece(self, state: StreamState, start: int, end: int) -> bytes | memoryview:
        """Some bytes from `start` on, not beyond `end`."""
        at, data, _ = self.chunk(state, start)
        if at == start and at + len(data) <= end:
            return data
        return memoryview(data)[start - at : end - at]

    def small(self, state: StreamState, start: int, end: int) -> bytes:
        """A range that is known to be small, in one."""
        pieces = []
        while start < end:
            piece = self.piece(state, start, end)
            pieces.append(piece)
            start += len(piece)
        return b"".join(pieces)

    def pieces(self, state: StreamState, start: int, end: int) -> Iterator[bytes]:
        """A range of any length, piece by piece; small neighbours are sent together."""
        while start < end:
            batch: list[bytes | memoryview] = []
            length = 0
            while start < end and length < PIECE_BYTES:
                piece = self.piece(state, start, min(end, start + 4 * PIECE_BYTES))
                batch.append(piece)
                length += len(piece)
                start += len(piece)
            yield bytes(batch[0]) if len(batch) == 1 else b"".join(batch)

    # --- message boundaries -------------------------------------------------------------------

    def is_boundary(self, state: StreamState, position: int) -> bool:
        """Whether a message ends there (or the stream begins)."""
        if position in (0, state.tail):
            return True
        start, data, ends = self.chunk(state, position - 1)
        inside = position - start
        if ends is None:
            return inside == len(data)
        index = bisect_left(ends, inside)
        return index < len(ends) and ends[index] == inside

    def ends(self, state: StreamState, start: int, end: int) -> Iterator[int]:
        """The ends of the messages behind `start`, up to `end`."""
        while start < end:
            at, data, ends = self.chunk(state, start)
            for inner in ends if ends is not None else (len(data),):
                if start < at + inner <= end:
                    yield at + inner
            start = at + len(data)

    def boundary_within(self, state: StreamState, start: int, limit: int) -> int:
        """The last message end at or before `limit`, but at least one message behind `start`."""
        best = start
        position = start
        while position < state.tail:
            at, data, ends = self.chunk(state, position)
            all_ends: Sequence[int] = ends if ends is not None else (len(data),)
            index = bisect_right(all_ends, limit - at)
            if index and at + all_ends[index - 1] > best:
                best = at + all_ends[index - 1]
            if index < len(all_ends):  # the next end lies behind the limit
                after = bisect_right(all_ends, start - at)
                return best if best > start else at + all_ends[after]
            position = at + len(data)
        return best
