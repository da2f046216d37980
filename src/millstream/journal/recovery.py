"""What a journal directory holds: found, checked, and said plainly when it is damaged.

A segment that has a successor ends where the successor's header says. The last one ends at its
last intact frame: what follows is a torn commit that nobody was told about, unless an intact
frame stands behind it, which no crash can produce: then the start is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from millstream.contracts import SealedRecord, ShardTail

from .frames import (
    SegmentHeader,
    UnknownFormat,
    any_frame_after,
    decode_header,
    frame_at,
    header_length,
    records_of,
)


class JournalDamaged(Exception):
    """Stored frames are missing or do not match their checksum; the message says where."""


class Segment(Struct):
    """A segment on disk: `end` is where its last frame ends, `last` each shard's last sequence in it;
    up to `done` nobody needs it any more."""

    path: Path
    header: SegmentHeader
    end: int
    frames: int
    last: dict[int, int]
    done: int = 0


def segment_path(directory: Path, number: int) -> Path:
    return directory / f"{number:012d}.seg"


def recover(directory: Path, shards: int) -> tuple[list[Segment], list[ShardTail]]:
    """Every segment in order, checked, and every shard's tail. Nothing is changed on disk."""
    paths = sorted(directory.glob("*.seg"))
    headers = [(path, _header_of(path)) for path in paths]
    if headers and headers[-1][1] is None and _never_used(headers[-1][0], shards):
        headers.pop()  # made, but its header was never synced: nothing was committed to it
    segments: list[Segment] = []
    tails = [ShardTail() for _ in range(shards)]
    for index, (path, header) in enumerate(headers):
        if header is None:
            raise JournalDamaged(f"{path}: the segment's header is damaged")
        if len(header.tails) != shards:
            raise JournalDamaged(f"{path}: written for {len(header.tails)} shards, not {shards}")
        if segments and header.previous_number != segments[-1].header.number:
            raise JournalDamaged(f"{path}: the segment before it ({header.previous_number}) is missing")
        if not segments:
            tails = list(header.tails)
        following = headers[index + 1][1] if index + 1 < len(headers) else None
        segment = _scan(path, header, tails, following)
        segments.append(segment)
        if following is not None:
            for shard, tail in enumerate(following.tails):
                if (tail.sequence, tail.hash) != (tails[shard].sequence, tails[shard].hash):
                    raise JournalDamaged(
                        f"{path}: shard {shard} ends at {tails[shard].sequence}, "
                        f"but the next segment names {tail.sequence}"
                    )
            tails = list(following.tails)
    return segments, tails


def _header_of(path: Path) -> SegmentHeader | None:
    with path.open("rb") as file:
        try:
            return decode_header(file.read(1 << 20))
        except UnknownFormat as error:
            raise JournalDamaged(f"{path}: written by a newer version ({error})") from None


def _never_used(path: Path, shards: int) -> bool:
    """Whether there is nothing behind the header: frames come only after it has been synced."""
    with path.open("rb") as file:
        file.seek(header_length(shards))
        while piece := file.read(1 << 20):
            if piece.count(0) != len(piece):
                return False
    return True


def _scan(
    path: Path, header: SegmentHeader, tails: list[ShardTail], following: SegmentHeader | None
) -> Segment:
    data = memoryview(path.read_bytes())
    at, number = header_length(len(tails)), 0
    limit = len(data) if following is None else following.previous_end
    last: dict[int, int] = {}
    while at < limit:
        frame = frame_at(data, at, header.id, number)
        if frame is None:
            break
        end, count = frame
        for record in records_of(data, at, count):
            _check(path, at, record, tails)
            last[record.shard] = record.sequence
        at, number = end, number + 1
    if following is not None and at != limit:
        raise JournalDamaged(f"{path}: the frame at byte {at} is damaged")
    if following is None:
        later = any_frame_after(data, at, header.id)
        if later is not None:
            raise JournalDamaged(
                f"{path}: the frame at byte {at} is damaged, and an intact one follows at byte {later}"
            )
    return Segment(path, header, at, number, last)


def _check(path: Path, at: int, record: SealedRecord, tails: list[ShardTail]) -> None:
    if record.shard >= len(tails):
        raise JournalDamaged(f"{path}: the frame at byte {at} names shard {record.shard}")
    tail = tails[record.shard]
    if record.previous_hash != tail.hash or record.sequence < tail.next_sequence:
        raise JournalDamaged(
            f"{path}: the frame at byte {at} does not continue shard {record.shard} at {tail.sequence}"
        )
    tails[record.shard] = ShardTail(record.sequence, record.hash, record.epoch, record.sequence + 1)


def records_in(segment: Segment) -> Iterator[SealedRecord]:
    """Every record of a segment that has been checked before."""
    data = memoryview(segment.path.read_bytes()[: segment.end])
    at, number = header_length(len(segment.header.tails)), 0
    while at < segment.end:
        frame = frame_at(data, at, segment.header.id, number)
        if frame is None:
            raise JournalDamaged(f"{segment.path}: the frame at byte {at} is damaged")
        end, count = frame
        yield from records_of(data, at, count)
        at, number = end, number + 1


def read_segments(segments: list[Segment], from_sequences: Mapping[int, int]) -> Iterator[SealedRecord]:
    """The records of these shards from these sequences on."""
    for segment in segments:
        if any(segment.last.get(shard, -1) >= start for shard, start in from_sequences.items()):
            for record in records_in(segment):
                start = from_sequences.get(record.shard)
                if start is not None and record.sequence >= start:
                    yield record
