"""Checkpoints: from the journal into the store, shard by shard (ARCHITECTURE §7).

A checkpoint writes what changed in a shard since the last one, from the durable state, in one
batch. It becomes durable with the next flush, which runs in a thread; then the journal is trimmed.
What is bounded: bytes that no checkpoint has saved, journal that no flush has covered, and bytes
kept in memory only because a reader may want them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct

from millstream.contracts import Applied, Checkpoint, Journal, Removal, Store, StoreDamaged, StreamChange
from millstream.protocol.chunks import Chunk, regroup

from .entry import Entry
from .reads import PIECE_BYTES
from .shard import Shard

log = logging.getLogger("millstream.engine")


RETRY_SECONDS = 1.0
KEPT_OVERHEAD = 400  # bytes that a small chunk costs besides its content


class CheckpointLimits(Struct, frozen=True):
    shard_bytes: int = 1 << 20
    shard_streams: int = 1000
    journal_bytes: int = 32 << 20  # a flush begins; at twice this, appends wait for it
    memory_bytes: int = 256 << 20  # saved bytes that stay in memory for readers


class Checkpoints:
    def __init__(
        self,
        shards: Sequence[Shard],
        store: Store,
        journal: Journal,
        limits: CheckpointLimits,
        after_flush: Callable[[], None],
    ) -> None:
        self._shards, self._store, self._journal, self._limits = shards, store, journal, limits
        self._after_flush = after_flush
        self._kept: deque[tuple[Entry, int, int, int]] = deque()  # entry, incarnation, up to, bytes
        self._kept_bytes = 0
        self._flush: asyncio.Task[None] | None = None
        self.failure: OSError | StoreDamaged | None = None  # until a flush succeeds

    def after_commit(self, shards: Sequence[Shard]) -> None:
        if self.failure is None:
            for shard in shards:
                if (
                    shard.unsaved_bytes >= self._limits.shard_bytes
                    or len(shard.dirty) >= self._limits.shard_streams
                ):
                    try:
                        self.save(shard)
                    except (OSError, StoreDamaged) as error:
                        self._failed(error)
        if self._flush is None and self._journal.bytes_held() >= self._limits.journal_bytes:
            self.begin_flush()

    @property
    def overdue(self) -> bool:
        """More journal is waiting for a flush than a restart should have to replay."""
        return self._journal.bytes_held() >= 2 * self._limits.journal_bytes

    def save(self, shard: Shard) -> None:
        if not shard.dirty and not shard.removals and not shard.holds_refused_unsaved:
            if self._store.applied(shard.index) == self._applied(shard):
                return
        changes = []
        kept = [entry for entry in shard.dirty if entry.durable is not None]
        for entry in kept:
            state = entry.durable
            assert state is not None
            producers = (
                {name: state.producers[name] for name in entry.producers_changed}
                if entry.producers_changed
                else {}
            )
            changes.append(StreamChange(state, entry.footing, self._gather(entry), producers))
        self._store.checkpoint(
            Checkpoint(
                shard.index,
                self._applied(shard),
                changes,
                self._removals(shard),
                list(shard.holds_refused_unsaved),
            )
        )
        for entry, change in zip(kept, changes, strict=True):
            length = change.footing.saved_to - entry.footing.saved_to
            entry.footing = change.footing
            entry.saved = True
            entry.producers_changed = None
            self._keep(entry, length)
            shard.rest(entry)
        for entry in [entry for entry in shard.dirty if entry.durable is None]:
            if entry.at_rest and entry.ahead is None:
                shard.entries.pop(entry.key, None)
            else:
                shard.rest(entry)
        shard.dirty.clear()
        shard.removals.clear()
        shard.holds_refused_unsaved.clear()
        shard.unsaved_bytes = 0
        shard.forget()

    def _gather(self, entry: Entry) -> list[Chunk]:
        """What is not saved yet, in as few pieces as possible, in memory as well."""
        chunks = entry.chunks
        if not chunks:
            return chunks
        if chunks[-1][0] == entry.footing.saved_to:
            return [chunks[-1]]
        unsaved = entry.unsaved()
        gathered = list(regroup(unsaved, PIECE_BYTES))
        entry.chunks[len(entry.chunks) - len(unsaved) :] = gathered
        return gathered

    def _applied(self, shard: Shard) -> Applied:
        waiting = [group.first_sequence for group in shard.parts.values()]
        return Applied(
            shard.sequence,
            shard.hash,
            shard.epoch,
            min([shard.sequence + 1, *waiting]),
            shard.last_incarnation,
            shard.last_at_us,
        )

    def _removals(self, shard: Shard) -> list[Removal]:
        return [
            Removal(
                removal.key,
                removal.incarnation,
                removal.footing,
                (entry := shard.entries.get(removal.key)) is not None and entry.durable is not None,
            )
            for removal in shard.removals
        ]

    # --- memory -------------------------------------------------------------------------------

    def _keep(self, entry: Entry, length: int) -> None:
        if not length:
            return
        assert entry.durable is not None
        length += KEPT_OVERHEAD
        self._kept.append((entry, entry.durable.incarnation, entry.footing.saved_to, length))
        self._kept_bytes += length
        while self._kept_bytes > self._limits.memory_bytes:
            old, incarnation, upto, size = self._kept.popleft()
            self._kept_bytes -= size
            if old.durable is not None and old.durable.incarnation == incarnation:
                old.forget_chunks(upto)

    # --- flushing -----------------------------------------------------------------------------

    def begin_flush(self) -> None:
        if self._flush is None:
            self._flush = asyncio.get_running_loop().create_task(self._flush_all())

    async def _flush_all(self) -> None:
        try:
            for shard in self._shards:
                self.save(shard)
                await asyncio.sleep(0)
            before = [self._store.applied(shard.index).replay_from for shard in self._shards]
            await asyncio.to_thread(self._store.flush)
            self._journal.trim(before)
            self.failure = None
        except (OSError, StoreDamaged) as error:
            self._failed(error)
            await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._flush = None
        self._after_flush()

    def _failed(self, error: OSError | StoreDamaged) -> None:
        """The journal keeps what it holds; the next flush tries again."""
        self.failure = error
        log.error("saving to the store failed: %s; the journal keeps what it holds", error)

    async def settle(self) -> None:
        """Everything into the store, durably: the last thing before a stop."""
        while self._flush is not None:
            await asyncio.wait([self._flush])
        await self._flush_all()
