"""The store's contract over an ordered map of bytes.

Bytes of a stream lie in blocks of up to `BLOCK_BYTES_MAX`, with the message ends beside them. A
checkpoint adds what is new as a block; when `RUN_BLOCKS_MAX` small ones stand in a row they are
merged into one, so that each byte is written about twice and a read finds few blocks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from millstream.contracts import Applied, Checkpoint, Footing, Removal, StoreDamaged, StreamChange
from millstream.protocol.chunks import Chunk, regroup
from millstream.protocol.state import StreamState

from . import keys
from .values import decode_block, decode_stream, encode_block, encode_stream

BLOCK_BYTES_MAX = 256 << 10
RUN_BLOCKS_MAX = 16
SMALL_BYTES_MAX = 32 << 10  # a block from this size on is not merged again

log = logging.getLogger("millstream.store")

_encode = msgspec.msgpack.Encoder().encode
_decode_applied = msgspec.msgpack.Decoder(Applied).decode
_decode_producer = msgspec.msgpack.Decoder(tuple[int, int, int]).decode


class OrderedMap(Protocol):
    def get(self, key: bytes) -> bytes | None: ...
    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]: ...
    def last_at_or_before(self, start: bytes, at: bytes) -> tuple[bytes, bytes] | None: ...
    def batch(self) -> Any: ...
    def write(self, batch: Any) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class KeyspaceStore:
    def __init__(self, values: OrderedMap) -> None:
        self._map = values

    def applied(self, shard: int) -> Applied:
        value = self._map.get(keys.applied(shard))
        return Applied() if value is None else _decode_applied(value)

    def load(self, shard: int, key: str) -> tuple[StreamState, Footing] | None:
        value = self._map.get(keys.meta(shard, key))
        if value is None:
            return None
        state, footing = decode_stream(key, value)
        for name, packed in self._map.scan(*keys.producers(shard, state.incarnation)):
            state.producers[keys.producer_id(name)] = _decode_producer(packed)
        return state, footing

    def blocks(self, shard: int, incarnation: int, start: int, end: int) -> Iterator[Chunk]:
        if start >= end:
            return
        first = keys.block(shard, incarnation, 0)
        found = self._map.last_at_or_before(first, keys.block(shard, incarnation, start))
        where = f"shard {shard}, stream incarnation {incarnation}"
        if found is None:
            raise StoreDamaged(f"{where}: no block holds position {start}")
        at = keys.block_start(found[0])
        for key, value in self._map.scan(found[0], keys.block(shard, incarnation, end)):
            chunk = decode_block(keys.block_start(key), value, where)
            if chunk[0] != at:
                raise StoreDamaged(f"{where}: no block holds position {at}")
            at = chunk[0] + len(chunk[1])
            if at > start:
                yield chunk
        if at < end:
            raise StoreDamaged(f"{where}: no block holds position {at}")

    def due(self, shard: int, before_us: int, limit: int) -> list[tuple[int, str]]:
        found = []
        for key, _ in self._map.scan(keys.prefix(shard, b"x"), keys.deadline(shard, before_us, "")):
            found.append(keys.deadline_of(key))
            if len(found) >= limit:
                break
        return found

    def held(self, shard: int) -> list[str]:
        return [keys.text_after_kind(key) for key, _ in self._map.scan(*keys.kind_range(shard, b"r"))]

    def holds_refused(self, shard: int) -> set[str]:
        return {keys.text_after_kind(key) for key, _ in self._map.scan(*keys.kind_range(shard, b"n"))}

    def streams(self, shard: int) -> Iterator[tuple[StreamState, Footing]]:
        """Every stream of a shard, without its producers."""
        for key, value in self._map.scan(*keys.kind_range(shard, b"m")):
            yield decode_stream(keys.text_after_kind(key), value)

    def flush(self) -> None:
        self._map.flush()

    def close(self) -> None:
        self._map.close()

    # --- checkpoints --------------------------------------------------------------------------

    def checkpoint(self, checkpoint: Checkpoint) -> None:
        batch = self._map.batch()
        shard = checkpoint.shard
        for removal in checkpoint.removals:
            self._remove(batch, shard, removal)
        for change in checkpoint.changes:
            self._save(batch, shard, change)
        for hold in checkpoint.holds_refused:
            batch.put(keys.refused(shard, hold), b"")
        batch.put(keys.applied(shard), _encode(checkpoint.applied))
        self._map.write(batch)

    def _remove(self, batch: Any, shard: int, removal: Removal) -> None:
        incarnation = removal.incarnation
        batch.delete_range(keys.block(shard, incarnation, 0), keys.block(shard, incarnation + 1, 0))
        batch.delete_range(*keys.producers(shard, incarnation))
        if removal.footing.deadline_us is not None:
            batch.delete(keys.deadline(shard, removal.footing.deadline_us, removal.key))
        if removal.footing.held:
            batch.delete(keys.held(shard, removal.key))
        if not removal.keep_name:
            batch.delete(keys.meta(shard, removal.key))

    def _save(self, batch: Any, shard: int, change: StreamChange) -> None:
        state = change.state
        old = change.footing  # it stands until the write has succeeded
        footing = change.footing = Footing(
            old.run_start, old.run_count, old.saved_to, old.deadline_us, old.held
        )
        if change.chunks:
            self._save_bytes(batch, shard, state.incarnation, footing, change.chunks)
        for name, producer in change.producers.items() if change.producers else ():
            batch.put(keys.producer(shard, state.incarnation, name), _encode(producer))
        if state.deadline_us != footing.deadline_us:
            if footing.deadline_us is not None:
                batch.delete(keys.deadline(shard, footing.deadline_us, state.key))
            if state.deadline_us is not None:
                batch.put(keys.deadline(shard, state.deadline_us, state.key), b"")
            footing.deadline_us = state.deadline_us
        if bool(state.holds) != footing.held:
            footing.held = bool(state.holds)
            if footing.held:
                batch.put(keys.held(shard, state.key), b"")
            else:
                batch.delete(keys.held(shard, state.key))
        batch.put(keys.meta(shard, state.key), encode_stream(state, footing))

    def _to_merge(self, shard: int, incarnation: int, footing: Footing) -> list[Chunk]:
        """The run's blocks, or none: damaged ones stay as they are, and only who reads them is refused."""
        try:
            return list(self.blocks(shard, incarnation, footing.run_start, footing.saved_to))
        except StoreDamaged as error:
            log.error("blocks are not merged: %s", error)
            return []

    def _save_bytes(
        self, batch: Any, shard: int, incarnation: int, footing: Footing, chunks: list[Chunk]
    ) -> None:
        if footing.run_count >= RUN_BLOCKS_MAX:
            old = self._to_merge(shard, incarnation, footing)
            for start, _, _ in old:
                batch.delete(keys.block(shard, incarnation, start))
            chunks = old + chunks
            footing.run_count = 0
        if len(chunks) == 1 and len(chunks[0][1]) <= BLOCK_BYTES_MAX:
            blocks = chunks
        else:
            blocks = list(regroup(chunks, BLOCK_BYTES_MAX))
        for start, data, ends in blocks:
            batch.put(keys.block(shard, incarnation, start), encode_block(data, ends))
            footing.saved_to = start + len(data)
        if len(data) >= SMALL_BYTES_MAX:
            footing.run_count = 0  # large enough: the next block begins a new run
        elif footing.run_count == 0 or len(blocks) > 1:
            footing.run_start, footing.run_count = start, 1
        else:
            footing.run_count += 1
