"""What the store's suites share: a shard whose owner saves streams, checkpoint by checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from millstream.contracts import Applied, Checkpoint, Footing, Removal, StreamChange
from millstream.protocol.chunks import Chunk
from millstream.protocol.facts import Ends
from millstream.protocol.state import ProducerState, StreamState
from millstream.store import KeyspaceStore, MemoryMap, RocksMap
from millstream.store.keyspace import OrderedMap

EVERYTHING = (b"", b"\xff" * 8)


class FailingWrites:
    """Any map, whose next write may fail."""

    def __init__(self, inner: OrderedMap) -> None:
        self._inner, self.fails_next = inner, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, batch: Any) -> None:
        if self.fails_next:
            self.fails_next = False
            raise OSError("the disk is full")
        self._inner.write(batch)


@contextmanager
def opened(kind: str, directory: Path) -> Iterator[tuple[KeyspaceStore, OrderedMap]]:
    values: OrderedMap = MemoryMap() if kind == "memory" else RocksMap(directory / "store")
    store = KeyspaceStore(values)
    try:
        yield store, values
    finally:
        store.close()


def raw(values: OrderedMap, kind: bytes, shard: int = 0) -> dict[bytes, bytes]:
    """What stands in the map under this kind of key."""
    return {key: value for key, value in values.scan(*EVERYTHING) if key[2:3] == kind and key[1] == shard}


class Saver:
    """One stream as its owner holds it; `save` writes what is new."""

    def __init__(
        self, store: KeyspaceStore, key: str = "test/s", incarnation: int = 7, shard: int = 0
    ) -> None:
        self.store, self.shard = store, shard
        self.state = StreamState(key, incarnation, "text/plain")
        self.footing = Footing()
        self.unsaved: list[Chunk] = []
        self.sequence = 0

    def add(self, data: bytes, ends: Ends = None) -> None:
        self.unsaved.append((self.state.tail, data, ends))
        self.state.tail += len(data)

    def save(self, producers: dict[str, ProducerState] | None = None) -> None:
        change = StreamChange(self.state, self.footing, self.unsaved, producers or {})
        self.sequence += 1
        checkpoint(self.store, self.shard, [change], sequence=self.sequence)
        self.footing, self.unsaved = change.footing, []

    def remove(self, *, keep_name: bool = False) -> None:
        removal = Removal(self.state.key, self.state.incarnation, self.footing, keep_name)
        checkpoint(self.store, self.shard, [], [removal])

    def blocks(self, start: int, end: int) -> list[Chunk]:
        return list(self.store.blocks(self.shard, self.state.incarnation, start, end))


def checkpoint(
    store: KeyspaceStore,
    shard: int,
    changes: list[StreamChange],
    removals: list[Removal] | None = None,
    holds_refused: list[str] | None = None,
    sequence: int = 1,
) -> None:
    applied = Applied(sequence, 11, 2, sequence + 1, 5, 6)
    store.checkpoint(Checkpoint(shard, applied, changes, removals or [], holds_refused or []))


def ends_of(chunks: list[Chunk]) -> list[int]:
    """Absolute message ends."""
    return [at + end for at, data, ends in chunks for end in (ends if ends is not None else (len(data),))]
