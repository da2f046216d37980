"""The bytes of a segment: its header, and one frame per commit.

    segment   header (padded to whole pages) | frame | frame | … | zeros up to the preallocated size
    frame     magic, segment id, number, payload length, record count, checksum | payload
    payload   per record: shard, body length, sequence, epoch, batch id, previous hash, hash | body

The segment id is random: bytes in a user's message that look like a frame are none of this segment.
The header names the last frame of the segment before and every shard's tail there; what stands
behind that frame in the older file is void, damaged or not.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from msgspec import Struct
from xxhash import xxh3_64
from xxhash import xxh3_64_intdigest as checksum

from millstream.contracts import SealedRecord, ShardTail

FORMAT = 1
PAGE = 4096
SEGMENT_MAGIC = b"MILLSEG\0"
FRAME_MAGIC = b"MFRM"
_HEADER = struct.Struct("<8sIIQQQQ")  # magic, format, shards, number, id, previous number, previous end
_TAIL = struct.Struct("<QQQQ")
_FRAME = struct.Struct("<4sQQIIQ")
_RECORD = struct.Struct("<IIQQQQQ")
_CHECKSUM = struct.Struct("<Q")
FRAME_OVERHEAD = _FRAME.size
RECORD_OVERHEAD = _RECORD.size


class SegmentHeader(Struct, frozen=True):
    number: int
    id: int
    previous_number: int
    previous_end: int
    tails: tuple[ShardTail, ...]


def header_length(shards: int) -> int:
    used = _HEADER.size + _TAIL.size * shards + _CHECKSUM.size
    return -(-used // PAGE) * PAGE


def encode_header(header: SegmentHeader) -> bytes:
    body = _HEADER.pack(
        SEGMENT_MAGIC,
        FORMAT,
        len(header.tails),
        header.number,
        header.id,
        header.previous_number,
        header.previous_end,
    ) + b"".join(_TAIL.pack(t.sequence, t.hash, t.epoch, t.next_sequence) for t in header.tails)
    body += _CHECKSUM.pack(checksum(body))
    return body.ljust(header_length(len(header.tails)), b"\0")


class UnknownFormat(ValueError):
    """A newer version wrote this."""


def decode_header(data: bytes) -> SegmentHeader | None:
    """None where no intact header stands."""
    if len(data) < _HEADER.size or not data.startswith(SEGMENT_MAGIC):
        return None
    _, version, shards, number, identity, previous_number, previous_end = _HEADER.unpack_from(data)
    if version > FORMAT:
        raise UnknownFormat(f"journal format {version}")
    end = _HEADER.size + _TAIL.size * shards
    if len(data) < end + _CHECKSUM.size or _CHECKSUM.unpack_from(data, end)[0] != checksum(data[:end]):
        return None
    tails = tuple(ShardTail(*_TAIL.unpack_from(data, _HEADER.size + _TAIL.size * n)) for n in range(shards))
    return SegmentHeader(number, identity, previous_number, previous_end, tails)


def encode_frame(segment_id: int, number: int, records: Sequence[SealedRecord]) -> bytes:
    """Every body is copied once, into the frame."""
    pieces = [b""]
    length = 0
    for record in records:
        body = record.body
        pieces.append(
            _RECORD.pack(
                record.shard,
                len(body),
                record.sequence,
                record.epoch,
                record.batch_id,
                record.previous_hash,
                record.hash,
            )
        )
        pieces.append(body)
        length += RECORD_OVERHEAD + len(body)
    fields = _FRAME.pack(FRAME_MAGIC, segment_id, number, length, len(records), 0)
    digest = xxh3_64(seed=checksum(fields))
    for piece in pieces:
        digest.update(piece)
    pieces[0] = _FRAME.pack(FRAME_MAGIC, segment_id, number, length, len(records), digest.intdigest())
    return b"".join(pieces)


def frame_at(data: memoryview, at: int, segment_id: int, number: int | None) -> tuple[int, int] | None:
    """(end, record count) of the intact frame that stands there, if one does."""
    if at + _FRAME.size > len(data):
        return None
    magic, identity, found_number, length, count, digest = _FRAME.unpack_from(data, at)
    start = at + _FRAME.size
    if magic != FRAME_MAGIC or identity != segment_id or start + length > len(data):
        return None
    if number is not None and found_number != number:
        return None
    fields = _FRAME.pack(magic, identity, found_number, length, count, 0)
    if checksum(data[start : start + length], seed=checksum(fields)) != digest:
        return None
    return start + length, count


def records_of(data: memoryview, at: int, count: int) -> Iterator[SealedRecord]:
    """The records of an intact frame."""
    at += _FRAME.size
    for _ in range(count):
        shard, length, sequence, epoch, batch_id, previous_hash, digest = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        body = bytes(data[at : at + length])
        yield SealedRecord(shard, epoch, sequence, batch_id, previous_hash, digest, body)
        at += length


def any_frame_after(data: memoryview, at: int, segment_id: int) -> int | None:
    """Where an intact frame of the segment stands at or behind this place."""
    mark = FRAME_MAGIC + segment_id.to_bytes(8, "little")
    raw = bytes(data[at:])
    found = raw.find(mark)
    while found >= 0:
        if frame_at(data, at + found, segment_id, None) is not None:
            return at + found
        found = raw.find(mark, found + 1)
    return None
