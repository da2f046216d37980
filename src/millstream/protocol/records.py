"""A journal record's body: the facts of one shard and one commit, column by column.

    columns length (u32) | columns (msgpack) | all values, one after another

Names stand once in a dictionary, small fields in columns, rare fields in sparse lists, and all
bytes in one buffer with their ends: an Arrow table is built from it without touching rows.
The order of the rows is the order of the facts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from .ends import packed, unpacked
from .facts import (
    KIND_OF,
    Appended,
    Created,
    Ended,
    Fact,
    ForkOrigin,
    HoldAdded,
    HoldRefused,
    HoldReleased,
    Part,
    ProducerTuple,
    Touched,
)

RECORD_BYTES_MAX = 1 << 20  # ARCHITECTURE §5: what one record may hold; larger bodies travel as Parts
_LENGTH = struct.Struct("<I")

StreamName = tuple[str, int, str]  # key, incarnation, content type


class Columns(Struct, array_like=True):
    at_us: int
    streams: list[StreamName]
    kind: list[int]
    stream: list[int]
    value_end: list[int]
    position: list[int]
    ends: list[tuple[int, bytes]] = []  # row, message ends where the value is not one message
    producer: list[tuple[int, str, int, int]] = []
    stream_seq: list[tuple[int, str]] = []
    closes: list[int] = []
    deadline: list[tuple[int, int]] = []
    part_group: list[tuple[int, int]] = []
    created: list[tuple[int, int | None, str | None, int | None, ForkOrigin | None]] = []
    ended: list[tuple[int, bool, bool]] = []
    hold: list[tuple[int, str, bool]] = []


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Columns).decode
_APPENDED, _CREATED, _PART = KIND_OF[Appended], KIND_OF[Created], KIND_OF[Part]
_TOUCHED, _ENDED = KIND_OF[Touched], KIND_OF[Ended]


def encode(at_us: int, items: Sequence[tuple[StreamName, Fact]]) -> bytes:
    """The body of a record. One loop: this stands in the path of every append."""
    kinds: list[int] = []
    streams: list[int] = []
    value_ends: list[int] = []
    positions: list[int] = []
    columns = Columns(at_us, [], kinds, streams, value_ends, positions)
    values: list[bytes] = [b"", b""]
    index: dict[StreamName, int] = {}
    length = 0
    for row, (name, fact) in enumerate(items):
        number = index.get(name)
        if number is None:
            number = index[name] = len(index)
        streams.append(number)
        if type(fact) is Appended:
            kinds.append(_APPENDED)
            positions.append(fact.position)
            data = fact.data
            length += len(data)
            values.append(data)
            if fact.ends is not None:
                columns.ends.append((row, packed(fact.ends)))
            if fact.producer is not None:
                columns.producer.append((row, fact.producer.id, fact.producer.epoch, fact.producer.seq))
            if fact.stream_seq is not None:
                columns.stream_seq.append((row, fact.stream_seq))
            if fact.closes:
                columns.closes.append(row)
            if fact.deadline_us is not None:
                columns.deadline.append((row, fact.deadline_us))
            if fact.part_group:
                columns.part_group.append((row, fact.part_group))
        else:
            kinds.append(KIND_OF[type(fact)])
            positions.append(0)
            length += _encode_rare(columns, row, fact, values)
        value_ends.append(length)
    columns.streams = list(index)
    values[1] = _encode(columns)
    values[0] = _LENGTH.pack(len(values[1]))
    return b"".join(values)


def _encode_rare(columns: Columns, row: int, fact: Fact, values: list[bytes]) -> int:
    """Everything but an append; how many value bytes it added."""
    if isinstance(fact, Touched):
        columns.deadline.append((row, fact.deadline_us))
    elif isinstance(fact, Ended):
        columns.ended.append((row, fact.expired, fact.soft))
    elif isinstance(fact, HoldReleased):
        columns.hold.append((row, fact.hold, fact.removes))
    elif isinstance(fact, HoldAdded | HoldRefused):
        columns.hold.append((row, fact.hold, False))
    else:
        assert isinstance(fact, Created | Part)
        values.append(fact.data)
        if fact.ends is not None:
            columns.ends.append((row, packed(fact.ends)))
        group = fact.group if isinstance(fact, Part) else fact.part_group
        if group:
            columns.part_group.append((row, group))
        if isinstance(fact, Created):
            columns.created.append((row, fact.ttl_seconds, fact.expires_at, fact.expires_at_us, fact.origin))
            if fact.closed:
                columns.closes.append(row)
            if fact.deadline_us is not None:
                columns.deadline.append((row, fact.deadline_us))
        return len(fact.data)
    return 0


def decode_columns(body: bytes) -> tuple[Columns, memoryview]:
    """The columns and the value buffer of a record's body."""
    (length,) = _LENGTH.unpack_from(body)
    view = memoryview(body)
    return _decode(view[4 : 4 + length]), view[4 + length :]


def _hold_fact(kind: int, entry: tuple[int, str, bool]) -> Fact:
    _, hold, removes = entry
    if kind == KIND_OF[HoldAdded]:
        return HoldAdded(hold)
    return HoldReleased(hold, removes) if kind == KIND_OF[HoldReleased] else HoldRefused(hold)


def facts_of(columns: Columns, values: memoryview) -> Iterator[tuple[StreamName, Fact]]:
    """Every fact with the stream that it is about, in order."""
    ends = {row: unpacked(data) for row, data in columns.ends}
    producers = {row: ProducerTuple(name, epoch, seq) for row, name, epoch, seq in columns.producer}
    seqs, deadlines, groups = dict(columns.stream_seq), dict(columns.deadline), dict(columns.part_group)
    closes = set(columns.closes)
    created = {entry[0]: entry for entry in columns.created}
    ended = {entry[0]: entry for entry in columns.ended}
    holds = {entry[0]: entry for entry in columns.hold}
    start = 0
    for row, kind in enumerate(columns.kind):
        end = columns.value_end[row]
        data = bytes(values[start:end])
        start = end
        name = columns.streams[columns.stream[row]]
        fact: Fact
        if kind == _APPENDED:
            fact = Appended(
                columns.position[row],
                data,
                ends.get(row),
                producers.get(row),
                seqs.get(row),
                row in closes,
                deadlines.get(row),
                groups.get(row, 0),
            )
        elif kind == _CREATED:
            _, ttl, expires_at, expires_at_us, origin = created[row]
            fact = Created(
                name[2],
                ttl,
                expires_at,
                expires_at_us,
                deadlines.get(row),
                row in closes,
                origin,
                data,
                ends.get(row),
                groups.get(row, 0),
            )
        elif kind == _PART:
            fact = Part(groups[row], data, ends.get(row))
        elif kind == _TOUCHED:
            fact = Touched(deadlines[row])
        elif kind == _ENDED:
            _, expired, soft = ended[row]
            fact = Ended(expired, soft)
        else:
            fact = _hold_fact(kind, holds[row])
        yield name, fact
