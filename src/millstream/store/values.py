"""The values of the keyspace: how a stream's state and a block of its bytes are written down."""

from __future__ import annotations

import struct

import msgspec
from msgspec import Struct
from xxhash import xxh3_64
from xxhash import xxh3_64_intdigest as checksum

from millstream.contracts import Footing, StoreDamaged
from millstream.protocol.chunks import Chunk
from millstream.protocol.ends import WIDTH, packed, unpacked
from millstream.protocol.facts import Ends, ForkOrigin, ProducerTuple
from millstream.protocol.state import Life, StreamState

_BLOCK = struct.Struct("<QI")  # checksum of what follows it, number of message ends
_COUNT = struct.Struct("<I")
_ONE_MESSAGE = 0xFFFF_FFFF


class StreamValue(Struct, array_like=True):
    incarnation: int
    content_type: str
    life: int
    tail: int
    closed: bool
    closer: ProducerTuple | None
    stream_seq: str | None
    ttl_seconds: int | None
    expires_at: str | None
    expires_at_us: int | None
    deadline_us: int | None
    origin: ForkOrigin | None
    holds: tuple[str, ...]
    created_at_us: int
    last_write_at_us: int
    footing: Footing


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StreamValue).decode


def encode_stream(state: StreamState, footing: Footing) -> bytes:
    return _encode(
        (
            state.incarnation,
            state.content_type,
            state.life,
            state.tail,
            state.closed,
            state.closer,
            state.stream_seq,
            state.ttl_seconds,
            state.expires_at,
            state.expires_at_us,
            state.deadline_us,
            state.origin,
            tuple(state.holds),
            state.created_at_us,
            state.last_write_at_us,
            footing,
        )
    )


def decode_stream(key: str, data: bytes) -> tuple[StreamState, Footing]:
    value = _decode(data)
    state = StreamState(key, value.incarnation, value.content_type)
    state.life = Life(value.life)
    state.tail = value.tail
    state.closed, state.closer = value.closed, value.closer
    state.stream_seq = value.stream_seq
    state.ttl_seconds = value.ttl_seconds
    state.expires_at, state.expires_at_us = value.expires_at, value.expires_at_us
    state.deadline_us = value.deadline_us
    state.origin = value.origin
    state.holds = frozenset(value.holds)
    state.created_at_us, state.last_write_at_us = value.created_at_us, value.last_write_at_us
    return state, value.footing


def encode_block(data: bytes, ends: Ends) -> bytes:
    head = _COUNT.pack(_ONE_MESSAGE if ends is None else len(ends))
    inside = b"" if ends is None else packed(ends)
    digest = xxh3_64(head)
    digest.update(inside)
    digest.update(data)
    return b"".join((digest.intdigest().to_bytes(8, "little"), head, inside, data))


def decode_block(start: int, value: bytes, where: str) -> Chunk:
    digest, count = _BLOCK.unpack_from(value)
    if checksum(memoryview(value)[8:]) != digest:
        raise StoreDamaged(f"{where}: the block at position {start} does not match its checksum")
    at = _BLOCK.size
    if count == _ONE_MESSAGE:
        return start, value[at:], None
    return start, value[at + WIDTH * count :], unpacked(value[at : at + WIDTH * count])
