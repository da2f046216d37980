"""The keyspace. Every key begins with its shard, so that a shard moves by copying a range.

    shard 'a'                               the applied position
    shard 'm' bucket/stream                 a stream's state
    shard 'b' incarnation start             a block of its bytes
    shard 'p' incarnation producer id       one producer of it
    shard 'x' deadline bucket/stream        streams by deadline
    shard 'r' bucket/stream                 streams that forks refer to
    shard 'n' hold id                       holds that were refused to a late creation

One column family, kinds by prefix: without a write-ahead log, flushing saves one family alone.
"""

from __future__ import annotations

import struct
from functools import cache

_SHARD = struct.Struct(">H")
_U64 = struct.Struct(">Q")
_TWO = struct.Struct(">QQ")


@cache
def prefix(shard: int, kind: bytes) -> bytes:
    return _SHARD.pack(shard) + kind


def applied(shard: int) -> bytes:
    return prefix(shard, b"a")


def meta(shard: int, key: str) -> bytes:
    return prefix(shard, b"m") + key.encode()


def block(shard: int, incarnation: int, start: int) -> bytes:
    return prefix(shard, b"b") + _TWO.pack(incarnation, start)


def block_start(key: bytes) -> int:
    start: int = _U64.unpack_from(key, 11)[0]
    return start


def producer(shard: int, incarnation: int, producer_id: str) -> bytes:
    return prefix(shard, b"p") + _U64.pack(incarnation) + producer_id.encode()


def producer_id(key: bytes) -> str:
    return key[11:].decode()


def producers(shard: int, incarnation: int) -> tuple[bytes, bytes]:
    head = prefix(shard, b"p")
    return head + _U64.pack(incarnation), head + _U64.pack(incarnation + 1)


def deadline(shard: int, deadline_us: int, key: str) -> bytes:
    return prefix(shard, b"x") + _U64.pack(deadline_us) + key.encode()


def deadline_of(key: bytes) -> tuple[int, str]:
    return _U64.unpack_from(key, 3)[0], key[11:].decode()


def held(shard: int, key: str) -> bytes:
    return prefix(shard, b"r") + key.encode()


def refused(shard: int, hold: str) -> bytes:
    return prefix(shard, b"n") + hold.encode()


def text_after_kind(key: bytes) -> str:
    return key[3:].decode()


def kind_range(shard: int, kind: bytes) -> tuple[bytes, bytes]:
    return prefix(shard, kind), prefix(shard, bytes((kind[0] + 1,)))
