"""One name in a shard: what is durable, what runs ahead of it, and the bytes kept in memory.

`durable` is what everybody may see. `ahead` is the twin that only decisions look at: every fact is
applied to it when it is decided and to `durable` when it is committed, so the two are equal
whenever nothing is in flight; it is dropped when a commit fails. `record` is the record that
carries the latest fact in flight; an answer drawn from `ahead` waits for it.

An entry whose stream was removed stays until a checkpoint has removed it from the store as well:
the name would be loaded again.

`chunks` are stored bytes without a gap up to the durable tail: those that no checkpoint has saved
(from `footing.saved_to` on) always, older ones while the memory budget allows.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, Protocol

from millstream.contracts import Footing
from millstream.protocol.chunks import Chunk
from millstream.protocol.facts import Ends
from millstream.protocol.state import Life, StreamState

if TYPE_CHECKING:
    from .record import OpenRecord


log = logging.getLogger("millstream.engine")


class Waiter(Protocol):
    """A live reader. It is told, on the event loop, after the durable state has changed."""

    def wake(self, entry: Entry) -> None: ...


class Audience:
    """The live readers of a stream, and what those at the same place have in common to be sent."""

    __slots__ = ("shared", "waiters")

    def __init__(self) -> None:
        self.waiters: dict[Waiter, None] = {}
        self.shared: dict[object, Any] = {}


class Entry:
    """Few containers of its own: there may be a million of these."""

    __slots__ = (
        "ahead",
        "audience",
        "chunks",
        "durable",
        "expires_us",
        "footing",
        "key",
        "producers_changed",
        "queued",
        "record",
        "saved",
    )

    def __init__(self, key: str, durable: StreamState | None, footing: Footing) -> None:
        self.key = key
        self.durable = durable
        self.ahead: StreamState | None = None
        self.record: OpenRecord | None = None
        self.footing = footing
        self.saved = durable is not None
        self.queued = False
        self.chunks: list[Chunk] = []
        self.producers_changed: set[str] | None = None
        self.expires_us: int | None = None if durable is None else durable.deadline_us
        self.audience: Audience | None = None

    @property
    def latest(self) -> StreamState | None:
        """The state to decide on."""
        return self.ahead if self.ahead is not None else self.durable

    @property
    def at_rest(self) -> bool:
        """Nothing in flight, and nobody who looks at it."""
        return self.record is None and not self.watched

    @property
    def watched(self) -> bool:
        return self.audience is not None and bool(self.audience.waiters)

    def begin(self, state: StreamState) -> None:
        """A new stream became durable under this name."""
        self.durable = state
        self.footing = Footing(saved_to=0 if state.origin is None else state.origin.position)
        self.saved = False
        self.chunks = []
        self.producers_changed = None
        self.expires_us = state.deadline_us

    def producer_changed(self, producer_id: str) -> None:
        if self.producers_changed is None:
            self.producers_changed = {producer_id}
        else:
            self.producers_changed.add(producer_id)

    def gather_audience(self) -> Audience:
        if self.audience is None:
            self.audience = Audience()
        return self.audience

    def wake(self) -> None:
        """The durable state has changed: tell whoever waits."""
        audience = self.audience
        if audience is not None:
            audience.shared.clear()
            for waiter in list(audience.waiters):
                try:
                    waiter.wake(self)
                except Exception:
                    log.exception("a reader of %s could not be woken", self.key)
            if not audience.waiters:
                self.audience = None

    def live(self) -> StreamState | None:
        durable = self.durable
        return durable if durable is not None and durable.life is Life.LIVE else None

    def unsaved(self) -> list[Chunk]:
        chunks, saved_to = self.chunks, self.footing.saved_to
        if not chunks or chunks[0][0] >= saved_to:
            return chunks[:]
        return chunks[bisect_left(chunks, saved_to, key=_start) :]

    def forget_chunks(self, upto: int) -> None:
        """Drop saved bytes from memory."""
        chunks = self.chunks
        if chunks and chunks[0][0] < upto:
            del chunks[: bisect_left(chunks, upto, key=_start)]

    def chunk_at(self, position: int) -> Chunk | None:
        """The chunk in memory that holds the byte at this position."""
        chunks = self.chunks
        if not chunks or position < chunks[0][0]:
            return None
        last = chunks[-1]
        if position >= last[0]:
            return last if position < last[0] + len(last[1]) else None
        return chunks[bisect_right(chunks, position, key=_start) - 1]

    def add_chunk(self, position: int, data: bytes, ends: Ends) -> None:
        self.chunks.append((position, data, ends))


def _start(chunk: Chunk) -> int:
    return chunk[0]
