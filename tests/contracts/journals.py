"""What the journal's suites share: records in a chain, awaited commits, disks that fail on demand."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from xxhash import xxh3_64_intdigest

from millstream.contracts import Journal, SealedRecord
from millstream.journal import SegmentJournal
from millstream.journal.frames import FRAME_OVERHEAD, RECORD_OVERHEAD, header_length

SHARDS = 3
SEGMENT_BYTES = 64 << 10
HEADER = header_length(SHARDS)


class Chain:
    """Makes the next record of each shard, as its owner does."""

    def __init__(self, journal: Journal, epoch: int = 1) -> None:
        self._journal, self.epoch = journal, epoch

    def next(self, shard: int, body: bytes) -> SealedRecord:
        tail = self._journal.tail(shard)
        digest = xxh3_64_intdigest(body, seed=tail.hash)
        sequence = tail.next_sequence
        return SealedRecord(shard, self.epoch, sequence, 1000 + sequence, tail.hash, digest, body)


async def outcome(journal: Journal, records: Sequence[SealedRecord]) -> BaseException | None:
    told: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    journal.commit(records, told.set_result)
    return await asyncio.wait_for(told, 5)


async def committed(journal: Journal, *bodies: tuple[int, bytes]) -> list[SealedRecord]:
    """One commit that succeeds."""
    chain = Chain(journal)
    records = [chain.next(shard, body) for shard, body in bodies]
    assert await outcome(journal, records) is None
    return records


def found(journal: Journal, from_sequence: int = 0) -> list[bytes]:
    return [r.body for r in journal.read(dict.fromkeys(range(SHARDS), from_sequence))]


class Disk:
    """`write=` and `sync=` of a SegmentJournal. The n-th call from now on may fail."""

    def __init__(self) -> None:
        self.writes_fail_in = self.syncs_fail_in = -1
        self.torn_at: int | None = None
        self.syncs = 0

    def write(self, fd: int, data: bytes, at: int) -> int:
        self.writes_fail_in -= 1
        if self.writes_fail_in == 0:
            if self.torn_at is not None:
                os.pwrite(fd, bytes(data)[: self.torn_at], at)
            raise OSError(5, "the write failed")
        return os.pwrite(fd, data, at)

    def sync(self, fd: int) -> None:
        self.syncs += 1
        self.syncs_fail_in -= 1
        if self.syncs_fail_in == 0:
            raise OSError(5, "the sync failed")
        os.fdatasync(fd)


def segments(directory: Path, disk: Disk | None = None, segment_bytes: int = SEGMENT_BYTES) -> SegmentJournal:
    disk = disk or Disk()
    return SegmentJournal(directory, SHARDS, segment_bytes=segment_bytes, write=disk.write, sync=disk.sync)


def files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.seg"))


def frame_bytes(*lengths: int) -> int:
    return FRAME_OVERHEAD + sum(RECORD_OVERHEAD + length for length in lengths)


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)
