"""A journal that is only looked at: for examinations of a directory that no server holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from millstream.contracts import CommitUnknown, Completion, SealedRecord, ShardTail

from .recovery import read_segments, recover


class ReadOnlyJournal:
    def __init__(self, directory: Path, shards: int) -> None:
        self._segments, self._tails = recover(directory, shards)

    def commit(self, records: Sequence[SealedRecord], done: Completion) -> None:
        done(CommitUnknown("this journal is only read"))

    def tail(self, shard: int) -> ShardTail:
        return self._tails[shard]

    def read(self, from_sequences: Mapping[int, int]) -> Iterator[SealedRecord]:
        return read_segments(self._segments, from_sequences)

    def trim(self, before: Sequence[int]) -> None:
        """Nothing is removed."""

    async def reopen(self) -> None:
        raise CommitUnknown("this journal is only read")

    def bytes_held(self) -> int:
        return sum(segment.end for segment in self._segments)

    async def close(self) -> None:
        """There is nothing to close."""
