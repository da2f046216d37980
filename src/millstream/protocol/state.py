"""The state of one stream, and `apply`: how a fact changes it.

The same `apply` runs at the owner, in replay and (later) on followers. It never fails and never
looks at a clock. Bytes are not part of the state: who applies keeps them where he wants them.

An owner keeps two states of a stream: the durable one, and a copy that runs ahead of it while
commits are in flight (ARCHITECTURE §4). The copy shares the durable producers and keeps only the
ones that changed, so that making it costs the same however many producers a stream has.
"""

from __future__ import annotations

from enum import IntEnum

from .facts import (
    Appended,
    Created,
    Ended,
    Fact,
    ForkOrigin,
    HoldAdded,
    HoldReleased,
    ProducerTuple,
    Touched,
)
from .media import is_json

ProducerState = tuple[int, int, int]  # epoch, highest accepted seq, end of that append


class Life(IntEnum):
    LIVE = 0
    ENDED = 1  # deleted or expired, while forks still refer to it: 410
    REMOVED = 2  # nothing is left: 404


class StreamState:
    __slots__ = (
        "_base",
        "closed",
        "closer",
        "content_type",
        "created_at_us",
        "deadline_us",
        "expires_at",
        "expires_at_us",
        "holds",
        "incarnation",
        "is_json",
        "key",
        "last_write_at_us",
        "life",
        "name",
        "offset_prefix",
        "origin",
        "producers",
        "stream_seq",
        "tail",
        "ttl_seconds",
    )

    def __init__(self, key: str, incarnation: int, content_type: str) -> None:
        self.key = key
        self.incarnation = incarnation
        self.name = (key, incarnation, content_type)
        self.offset_prefix = f"{incarnation:016d}-"
        self.content_type = content_type
        self.is_json = is_json(content_type)
        self.life = Life.LIVE
        self.tail = 0
        self.closed = False
        self.closer: ProducerTuple | None = None
        self.stream_seq: str | None = None
        self.producers: dict[str, ProducerState] = {}
        self.ttl_seconds: int | None = None
        self.expires_at: str | None = None
        self.expires_at_us: int | None = None
        self.deadline_us: int | None = None
        self.origin: ForkOrigin | None = None
        self.holds: frozenset[str] = frozenset()
        self.created_at_us = 0
        self.last_write_at_us = 0
        self._base: StreamState | None = None

    def producer(self, producer_id: str) -> ProducerState | None:
        known = self.producers.get(producer_id)
        if known is None and self._base is not None:
            return self._base.producers.get(producer_id)
        return known

    def ahead(self) -> StreamState:
        """A copy to run ahead of this state."""
        copy = StreamState.__new__(StreamState)
        copy.key = self.key
        copy.incarnation = self.incarnation
        copy.name = self.name
        copy.offset_prefix = self.offset_prefix
        copy.content_type = self.content_type
        copy.is_json = self.is_json
        copy.life = self.life
        copy.tail = self.tail
        copy.closed = self.closed
        copy.closer = self.closer
        copy.stream_seq = self.stream_seq
        copy.producers = {}
        copy.ttl_seconds = self.ttl_seconds
        copy.expires_at = self.expires_at
        copy.expires_at_us = self.expires_at_us
        copy.deadline_us = self.deadline_us
        copy.origin = self.origin
        copy.holds = self.holds
        copy.created_at_us = self.created_at_us
        copy.last_write_at_us = self.last_write_at_us
        copy._base = self
        return copy


def create(key: str, incarnation: int, fact: Created, length: int, at_us: int) -> StreamState:
    """The state that a `Created` makes; `length` counts its body, Parts included."""
    state = StreamState(key, incarnation, fact.content_type)
    state.ttl_seconds = fact.ttl_seconds
    state.expires_at = fact.expires_at
    state.expires_at_us = fact.expires_at_us
    state.deadline_us = fact.deadline_us
    state.closed = fact.closed
    state.origin = fact.origin
    state.tail = (fact.origin.position if fact.origin is not None else 0) + length
    state.created_at_us = state.last_write_at_us = at_us
    return state


def append(state: StreamState, fact: Appended, length: int, at_us: int) -> None:
    state.tail = end = fact.position + length
    if length:
        state.last_write_at_us = at_us
    producer = fact.producer
    if producer is not None:
        state.producers[producer.id] = (producer.epoch, producer.seq, end)
    if fact.stream_seq is not None:
        state.stream_seq = fact.stream_seq
    if fact.closes:
        state.closed = True
        state.closer = producer
    if fact.deadline_us is not None:
        state.deadline_us = fact.deadline_us


def apply(state: StreamState, fact: Fact) -> None:
    """Every fact that needs neither bytes nor a time."""
    if isinstance(fact, Touched):
        state.deadline_us = fact.deadline_us
    elif isinstance(fact, Ended):
        state.life = Life.ENDED if fact.soft else Life.REMOVED
        state.deadline_us = None  # it has come; what still stands among the deadlines would hide others
    elif isinstance(fact, HoldAdded):
        state.holds |= {fact.hold}
    elif isinstance(fact, HoldReleased):
        state.holds -= {fact.hold}
        if fact.removes:
            state.life = Life.REMOVED
