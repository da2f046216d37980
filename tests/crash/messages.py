"""Messages that say of themselves who wrote them, which they are, how long they are, and their checksum.

    M|<writer>|<number>|<attempt>|<index>/<count>|<length>|<crc32>|<payload>

`number` counts the writer's appends, `attempt` how often it was tried under a new identity (always 0 where
the server removes duplicates), `index/count` the messages of one append. A stream is the concatenation of
its messages as the server stores them: each ends with a newline, or, as JSON, is an object and a comma.
"""

from __future__ import annotations

import random
import re
import string
import zlib
from dataclasses import dataclass
from enum import Enum

Key = tuple[str, int, int]  # writer, number, attempt: one append


class Kind(Enum):
    BYTES = "application/octet-stream"
    TEXT = "text/plain"
    JSON = "application/json"

    @property
    def before(self) -> bytes:
        return b'{"m":"' if self is Kind.JSON else b""

    @property
    def after(self) -> bytes:
        return b'"},' if self is Kind.JSON else b"\n"


class Torn(Exception):
    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"at byte {position}: {reason}")
        self.position = position


@dataclass(frozen=True, slots=True)
class Placed:
    """A message found in a stream."""

    key: Key
    index: int
    count: int
    start: int
    end: int


_HEADER = re.compile(rb"M\|([^|]+)\|(\d+)\|(\d+)\|(\d+)/(\d+)\|(\d+)\|([0-9a-f]{8})\|")
_HEADER_BYTES_MAX = 200
_LETTERS = (string.ascii_letters + string.digits + " .,:-_").encode()
_LETTER_TABLE = bytes(_LETTERS[byte % len(_LETTERS)] for byte in range(256))


def payload(kind: Kind, rng: random.Random, length: int) -> bytes:
    """Any bytes at all in a binary stream, letters elsewhere (what is stored must be what was sent)."""
    noise = rng.randbytes(length)
    return noise if kind is Kind.BYTES else noise.translate(_LETTER_TABLE)


def encode(kind: Kind, key: Key, payloads: list[bytes]) -> bytes:
    """The stored bytes of one append."""
    writer, number, attempt = key
    count = len(payloads)
    stored = []
    for index, content in enumerate(payloads):
        begin = f"M|{writer}|{number}|{attempt}|{index}/{count}|{len(content)}|".encode()
        check = f"{zlib.crc32(content, zlib.crc32(begin)):08x}|".encode()
        stored += [kind.before, begin, check, content, kind.after]
    return b"".join(stored)


def request_body(kind: Kind, stored: bytes) -> bytes:
    """What goes over the wire to have `stored` stored."""
    return b"[" + stored.removesuffix(b",") + b"]" if kind is Kind.JSON else stored


def stored_bytes(kind: Kind, body: bytes) -> bytes:
    """What a read's body says is stored: literally, without decoding JSON."""
    if kind is not Kind.JSON:
        return body
    if not (body.startswith(b"[") and body.endswith(b"]")):
        raise Torn(0, f"not a JSON array: {body[:40]!r}…{body[-40:]!r}")
    inner = body[1:-1]
    return inner + b"," if inner else b""


def parse(kind: Kind, raw: bytes, start: int = 0) -> list[Placed]:
    """Every message from `start` to the end; raises Torn at anything that is not a whole one."""
    found = []
    before, after = kind.before, kind.after
    position = start
    while position < len(raw):
        begin = position + len(before)
        header = _HEADER.match(raw, begin, begin + _HEADER_BYTES_MAX)
        if header is None or raw[position:begin] != before:
            raise Torn(position, f"no message begins here: {raw[position : position + 60]!r}")
        writer, number, attempt, index, count, length, check = header.groups()
        content = raw[header.end() : header.end() + int(length)]
        end = header.end() + int(length) + len(after)
        head = raw[begin : header.start(7)]
        if len(content) != int(length) or raw[end - len(after) : end] != after:
            raise Torn(position, f"cut short: {head!r}")
        if zlib.crc32(content, zlib.crc32(head)) != int(check, 16):
            raise Torn(position, f"wrong checksum: {head!r}")
        key = (writer.decode(), int(number), int(attempt))
        found.append(Placed(key, int(index), int(count), position, end))
        position = end
    return found
