"""Facts: what has happened to a stream. They are what is journalled, and all that `apply` needs.

A fact says everything that its effect depends on: applying it asks no clock and cannot fail. The
kinds of one stream keep their order. `data` is always the stored form of the bytes, `ends` the
message ends relative to the fact's first byte (None: the data is one message).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

Ends = Sequence[int] | None


class ProducerTuple(Struct, frozen=True, array_like=True, gc=False):
    id: str
    epoch: int
    seq: int


class ForkOrigin(Struct, frozen=True, array_like=True):
    """Where a fork came from: the lineage that its inherited bytes and offsets belong to."""

    source: str
    source_incarnation: int
    lineage: tuple[tuple[str, int, int], ...]  # (key, incarnation, valid up to position), root first
    requested_offset: str | None
    requested_sub_offset: int
    hold: str

    @property
    def position(self) -> int:
        return self.lineage[-1][2]


class Created(Struct, frozen=True, gc=False):
    content_type: str
    ttl_seconds: int | None = None
    expires_at: str | None = None
    expires_at_us: int | None = None
    deadline_us: int | None = None
    closed: bool = False
    origin: ForkOrigin | None = None
    data: bytes = b""
    ends: Ends = None
    part_group: int = 0


class Appended(Struct, frozen=True, gc=False):
    """An append, a close, or both in one; with `part_group` the bytes came before, as Parts."""

    position: int
    data: bytes
    ends: Ends = None
    producer: ProducerTuple | None = None
    stream_seq: str | None = None
    closes: bool = False
    deadline_us: int | None = None
    part_group: int = 0


class Touched(Struct, frozen=True, gc=False):
    deadline_us: int


class Ended(Struct, frozen=True, gc=False):
    """Deleted or expired; `soft` while forks still refer to the stream."""

    expired: bool
    soft: bool


class HoldAdded(Struct, frozen=True, gc=False):
    hold: str


class HoldReleased(Struct, frozen=True, gc=False):
    """The last hold of a stream that has ended takes the stream with it (`removes`)."""

    hold: str
    removes: bool


class HoldRefused(Struct, frozen=True, gc=False):
    """Journalled in the fork's shard: a creation that names this hold comes too late."""

    hold: str


class Part(Struct, frozen=True, gc=False):
    """A piece of a body too large for one record; nobody sees it before its append is decided."""

    group: int
    data: bytes
    ends: Ends = None


Fact = Created | Appended | Touched | Ended | HoldAdded | HoldReleased | HoldRefused | Part

KIND_OF: Final[dict[type, int]] = {
    Created: 1,
    Appended: 2,
    Touched: 3,
    Ended: 4,
    HoldAdded: 5,
    HoldReleased: 6,
    HoldRefused: 7,
    Part: 8,
}
