"""What every journal promises, whatever it is made of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from millstream.contracts import CommitUnknown, Journal, SealedRecord, ShardTail
from millstream.journal import MemoryJournal

from .journals import SHARDS, Chain, Disk, committed, found, outcome, segments

Story = Callable[["Bench"], Coroutine[Any, Any, None]]


class Bench:
    """A journal, a way to make its next commit fail, and what a restart would open."""

    journal: Journal

    def fail_next(self) -> None:
        raise NotImplementedError

    async def restart(self) -> None:
        raise NotImplementedError


class MemoryBench(Bench):
    def __init__(self, _: Path) -> None:
        self.journal: MemoryJournal = MemoryJournal(SHARDS, self._soon)

    def _soon(self, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_soon(call)

    def fail_next(self) -> None:
        self.journal.fail_next = OSError("the disk failed")

    async def restart(self) -> None:
        self.journal = self.journal.crash(self._soon)


class SegmentBench(Bench):
    def __init__(self, directory: Path) -> None:
        self._directory, self._disk = directory, Disk()
        self.journal = segments(directory, self._disk)

    def fail_next(self) -> None:
        self._disk.syncs_fail_in = 1

    async def restart(self) -> None:
        await self.journal.close()
        self.journal = segments(self._directory, self._disk)


@pytest.fixture(params=[MemoryBench, SegmentBench])
def tell(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Story], None]:
    def run(story: Story) -> None:
        async def whole() -> None:
            bench: Bench = request.param(tmp_path)
            try:
                await story(bench)
            finally:
                await bench.journal.close()

        asyncio.run(asyncio.wait_for(whole(), 20))

    return run


Tell = Callable[[Story], None]


def test_a_new_journal_is_empty(tell: Tell) -> None:
    async def story(bench: Bench) -> None:
        assert [bench.journal.tail(shard) for shard in range(SHARDS)] == [ShardTail()] * SHARDS
        assert found(bench.journal) == []

    tell(story)


def test_what_was_committed_is_read_in_order_now_and_after_a_restart(tell: Tell) -> None:
    async def story(bench: Bench) -> None:
        records: list[SealedRecord] = []
        for number in range(5):
            records += await committed(bench.journal, (0, b"a%d" % number), (2, b"c%d" % number))
        everything = dict.fromkeys(range(SHARDS), 0)
        assert list(bench.journal.read(everything)) == records
        await bench.restart()
        assert list(bench.journal.read(everything)) == records

    tell(story)


def test_the_tail_names_the_last_durable_record_and_the_next_sequence(tell: Tell) -> None:
    async def story(bench: Bench) -> None:
        (record,) = await committed(bench.journal, (1, b"x"))
        expected = ShardTail(record.sequence, record.hash, record.epoch, record.sequence + 1)
        assert bench.journal.tail(1) == expected
        assert bench.journal.tail(0) == ShardTail()
        await bench.restart()
        assert bench.journal.tail(1) == expected

    tell(story)


def test_a_read_gives_the_asked_shards_from_the_asked_sequences_on(tell: Tell) -> None:
    async def story(bench: Bench) -> None:
        for number in range(4):
            await committed(bench.journal, (0, b"a%d" % number), (1, b"b%d" % number))
        read = [record.body for record in bench.journal.read({0: 3, 1: 5})]
        assert read == [b"a2", b"a3"]

    tell(story)


def test_tail_and_read_do_not_pass_a_commit_in_flight(tell: Tell) -> None:
    async def story(bench: Bench) -> None:
        told: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        bench.journal.commit([Chain(bench.journal).next(0, b"x")], told.set_result)
        assert bench.journal.tail(0).sequence == 0
        assert found(bench.journal) == []
        assert await told is None
        assert found(bench.journal) == [b"x"]

    tell(story)


def test_sequences_may_have_gaps(tell: Tell) -> None:
    async def story(bench: Bench) -> None:
        await committed(bench.journal, (0, b"first"))
        record = Chain(bench.journal).next(0, b"later")
        leap = SealedRecord(0, 1, 1 << 40, 1, record.previous_hash, record.hash, b"later")
        assert await outcome(bench.journal, [leap]) is None
        await bench.restart()
        assert bench.journal.tail(0).sequence == 1 << 40
        assert found(bench.journal) == [b"first", b"later"]

    tell(story)


def test_a_failed_commit_is_unknown_and_nothing_follows_it_before_a_reopen(tell: Tell) -> None:
    async def story(bench: Bench) -> None:
        await committed(bench.journal, (0, b"kept"))
        bench.fail_next()
        assert isinstance(
            await outcome(bench.journal, [Chain(bench.journal).next(0, b"lost")]), CommitUnknown
        )
        late = await outcome(bench.journal, [Chain(bench.journal).next(1, b"late")])
        assert isinstance(late, CommitUnknown)
        assert found(bench.journal) == [b"kept"]

    tell(story)


def test_after_a_reopen_what_failed_is_never_found_and_its_sequence_is_skipped(tell: Tell) -> None:
    async def story(bench: Bench) -> None:
        await committed(bench.journal, (0, b"kept"))
        bench.fail_next()
        lost = Chain(bench.journal).next(0, b"lost")
        assert isinstance(await outcome(bench.journal, [lost]), CommitUnknown)
        await bench.journal.reopen()
        assert bench.journal.tail(0).sequence == 1
        assert bench.journal.tail(0).next_sequence > lost.sequence
        (after,) = await committed(bench.journal, (0, b"after"))
        assert after.sequence > lost.sequence
        for _ in range(2):
            assert found(bench.journal) == [b"kept", b"after"]
            await bench.restart()

    tell(story)


def test_trimming_takes_nothing_that_is_still_needed(tell: Tell) -> None:
    async def story(bench: Bench) -> None:
        for number in range(6):
            await committed(bench.journal, (0, bytes([number]) * 20_000), (1, b"b%d" % number))
        before = bench.journal.bytes_held()
        bench.journal.trim([5, 1, 1])
        assert [r.sequence for r in bench.journal.read({0: 5, 1: 1})] == [
            r for n in range(1, 7) for r in ((n, n) if n >= 5 else (n,))
        ]
        bench.journal.trim([7, 7, 1])
        assert bench.journal.bytes_held() < before
        assert bench.journal.tail(0).sequence == 6
        await bench.restart()
        assert bench.journal.tail(0).sequence == 6

    tell(story)


def test_a_journal_that_was_trimmed_goes_on_after_a_restart(tell: Tell) -> None:
    async def story(bench: Bench) -> None:
        for _ in range(5):
            await committed(bench.journal, (0, bytes(30_000)))
        bench.journal.trim([6, 1, 1])
        await bench.restart()
        (record,) = await committed(bench.journal, (0, b"next"))
        assert record.sequence == 6
        assert [r.body for r in bench.journal.read({0: 6})] == [b"next"]

    tell(story)
