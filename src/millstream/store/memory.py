"""An ordered map in memory, for tests and simulations. `crash()` forgets what was not flushed."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator


class MemoryBatch:
    def __init__(self) -> None:
        self.steps: list[tuple[str, bytes, bytes]] = []

    def put(self, key: bytes, value: bytes) -> None:
        self.steps.append(("put", key, value))

    def delete(self, key: bytes) -> None:
        self.steps.append(("delete", key, b""))

    def delete_range(self, start: bytes, end: bytes) -> None:
        self.steps.append(("range", start, end))


class MemoryMap:
    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._keys: list[bytes] = []
        self._flushed: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        return self._values.get(key)

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        for key in self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, end)]:
            yield key, self._values[key]

    def last_at_or_before(self, start: bytes, at: bytes) -> tuple[bytes, bytes] | None:
        index = bisect_left(self._keys, at + b"\0") - 1
        if index < 0 or self._keys[index] < start:
            return None
        return self._keys[index], self._values[self._keys[index]]

    def batch(self) -> MemoryBatch:
        return MemoryBatch()

    def write(self, batch: MemoryBatch) -> None:
        for step, key, value in batch.steps:
            if step == "put":
                if key not in self._values:
                    insort(self._keys, key)
                self._values[key] = value
            elif step == "delete":
                self._remove(key)
            else:
                for inside, _ in list(self.scan(key, value)):
                    self._remove(inside)

    def _remove(self, key: bytes) -> None:
        if self._values.pop(key, None) is not None:
            del self._keys[bisect_left(self._keys, key)]

    def flush(self) -> None:
        self._flushed = dict(self._values)

    def crash(self) -> MemoryMap:
        survivor = MemoryMap()
        survivor._values = dict(self._flushed)
        survivor._keys = sorted(survivor._values)
        survivor._flushed = dict(self._flushed)
        return survivor

    def close(self) -> None:
        self.flush()
