"""What the engine asks of the world. Each contract has one behaviour suite that every
implementation passes (`tests/contracts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from .protocol.chunks import Chunk
from .protocol.state import ProducerState, StreamState


class Clock(Protocol):
    def now_us(self) -> int: ...


class Random(Protocol):
    def below(self, bound: int) -> int: ...


class SealedRecord(Struct, frozen=True, gc=False):
    """One shard's part of a commit, as it is journalled."""

    shard: int
    epoch: int
    sequence: int
    batch_id: int
    previous_hash: int
    hash: int
    body: bytes


class ShardTail(Struct, frozen=True):
    """The last record of a shard that is known durable, and the least sequence for a new one."""

    sequence: int = 0
    hash: int = 0
    epoch: int = 0
    next_sequence: int = 1


class CommitUnknown(Exception):
    """Whether the commit is in the journal will be known when it has been reopened."""


Completion = Callable[[BaseException | None], None]


class Journal(Protocol):
    """Where records become durable and ordered, per shard.

    Records of a shard are committed in the order of their sequences; one commit is in flight at a
    time. `done` is called on the caller's event loop: None means durable, `CommitUnknown` that
    nothing more can be committed before `reopen` has told what was found.
    """

    def commit(self, records: Sequence[SealedRecord], done: Completion) -> None: ...

    def tail(self, shard: int) -> ShardTail: ...

    def read(self, from_sequences: Mapping[int, int]) -> Iterator[SealedRecord]:
        """The durable records of these shards from these sequences on, none beyond `tail`."""
        ...

    def trim(self, before: Sequence[int]) -> None:
        """Per shard, the sequence below which nothing is needed any more."""
        ...

    async def reopen(self) -> None:
        """After a failed commit: settle what is durable, and take commits again."""
        ...

    def bytes_held(self) -> int:
        """What is still needed, about: `trim` makes it less."""
        ...

    async def close(self) -> None: ...


class Applied(Struct, frozen=True, array_like=True):
    """Up to where a shard's records have been applied, and what must outlive a restart with it."""

    sequence: int = 0
    hash: int = 0
    epoch: int = 0
    replay_from: int = 1  # lower than sequence + 1 while a body's Parts are waiting for their append
    last_incarnation: int = 0
    last_at_us: int = 0


class Footing(Struct, gc=False):
    """How a stream stands in the store: its run of small blocks, and its entry among the deadlines."""

    run_start: int = 0
    run_count: int = 0
    saved_to: int = 0
    deadline_us: int | None = None
    held: bool = False


class StreamChange(Struct, gc=False):
    """One changed stream of a checkpoint. The store replaces `footing` by the new one."""

    state: StreamState
    footing: Footing
    chunks: list[Chunk]
    producers: dict[str, ProducerState]


class Removal(Struct, frozen=True):
    key: str
    incarnation: int
    footing: Footing
    keep_name: bool  # a successor of the same name stands in the same checkpoint


class Checkpoint(Struct):
    shard: int
    applied: Applied
    changes: list[StreamChange]
    removals: list[Removal]
    holds_refused: list[str]


class StoreDamaged(Exception):
    """Stored bytes are missing or do not match their checksum; the message says which."""


class Store(Protocol):
    """The materialised state on this node. A checkpoint becomes visible at once, durable by `flush`."""

    def applied(self, shard: int) -> Applied: ...

    def load(self, shard: int, key: str) -> tuple[StreamState, Footing] | None: ...

    def blocks(self, shard: int, incarnation: int, start: int, end: int) -> Iterator[Chunk]:
        """The blocks that cover [start, end), in order, whole; checked on the way."""
        ...

    def due(self, shard: int, before_us: int, limit: int) -> list[tuple[int, str]]:
        """Streams by the deadline that was last saved for them."""
        ...

    def held(self, shard: int) -> list[str]:
        """Streams that forks refer to."""
        ...

    def holds_refused(self, shard: int) -> set[str]: ...

    def checkpoint(self, checkpoint: Checkpoint) -> None: ...

    def flush(self) -> None:
        """Make every checkpoint durable. May be called in a thread."""
        ...

    def close(self) -> None: ...
