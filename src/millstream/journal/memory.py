"""The journal of tests and simulations: the same contract, and whatever failure is asked for.

What is committed survives in `self.records` as long as the object does; `crash()` gives the journal
that a restarted process would open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from millstream.contracts import CommitUnknown, Completion, SealedRecord, ShardTail

Defer = Callable[[Callable[[], None]], object]


class MemoryJournal:
    def __init__(self, shards: int, defer: Defer) -> None:
        self._defer = defer
        self.records: list[SealedRecord] = []
        self._tails = [ShardTail() for _ in range(shards)]
        self._broken = False
        self.fail_next: BaseException | None = None

    def commit(self, records: Sequence[SealedRecord], done: Completion) -> None:
        if self._broken or self.fail_next is not None:
            self.fail_next, self._broken = None, True
            self._skip(records)
            self._defer(lambda: done(CommitUnknown("the journal is broken")))
            return

        def finish() -> None:
            for record in records:
                self.records.append(record)
                self._tails[record.shard] = ShardTail(
                    record.sequence, record.hash, record.epoch, record.sequence + 1
                )
            done(None)

        self._defer(finish)

    def _skip(self, records: Sequence[SealedRecord]) -> None:
        for record in records:
            tail = self._tails[record.shard]
            self._tails[record.shard] = ShardTail(tail.sequence, tail.hash, tail.epoch, record.sequence + 1)

    def tail(self, shard: int) -> ShardTail:
        return self._tails[shard]

    def read(self, from_sequences: Mapping[int, int]) -> Iterator[SealedRecord]:
        for record in list(self.records):
            start = from_sequences.get(record.shard)
            if start is not None and record.sequence >= start:
                yield record

    def trim(self, before: Sequence[int]) -> None:
        self.records = [record for record in self.records if record.sequence >= before[record.shard]]

    async def reopen(self) -> None:
        self._broken = False

    def bytes_held(self) -> int:
        return sum(len(record.body) for record in self.records)

    def crash(self, defer: Defer) -> MemoryJournal:
        reopened = MemoryJournal(len(self._tails), defer)
        reopened.records = list(self.records)
        reopened._tails = list(self._tails)
        return reopened

    async def close(self) -> None:
        self._broken = True
