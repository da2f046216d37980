"""The engine: what the doors call. One per process; it owns the shards that it is given.

Requests come in as checked structs and a `done` callback. A refusal that is certain now is raised;
everything else is told to `done`, once: the answer, or a `MillstreamError`. Nothing here waits: an
answer that depends on a commit is left with that commit's record.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from millstream.contracts import Clock, Journal, Random, Store, StoreDamaged
from millstream.protocol.appends import AppendRequest
from millstream.protocol.creates import CreateRequest
from millstream.protocol.errors import Code, MillstreamError, Refused
from millstream.protocol.state import Life

from .admission import Admission
from .appending import Appending
from .checkpoints import Checkpoints
from .commits import Commits
from .context import Context, EngineLimits, gone
from .creating import Creating
from .entry import Entry, Waiter
from .expiry import SWEEP_SECONDS, Expiry, is_due
from .reads import Reads
from .record import Done
from .recovery import held_streams, recover
from .shard import Load, Shard

log = logging.getLogger("millstream.engine")

STOP_POLL_SECONDS = 0.01
STOP_SECONDS_MAX = 1.5  # doors have waited for answers under way before


class Engine:
    def __init__(
        self,
        journal: Journal,
        store: Store,
        clock: Clock,
        random: Random,
        shards: int,
        limits: EngineLimits = EngineLimits(),  # noqa: B008
        disk: Path | None = None,
    ) -> None:
        self._journal, self._store, self._clock = journal, store, clock
        self._limits, self._disk = limits, disk
        self._load = load = Load()
        entries_max = max(1, limits.entries_max // shards)
        self.shards = [Shard(index, store, clock, random, load, entries_max) for index in range(shards)]
        self.replayed = recover(self.shards, store, journal)
        self.reads = Reads(self.shards, store)
        self._commits = Commits(journal, self._after_commit, self._reconsider)
        self._checkpoints = Checkpoints(self.shards, store, journal, limits.checkpoint, self._reconsider)
        self._admission = Admission(self._why_not, limits.admission_wait_seconds, limits.parked_bytes)
        self._context = Context(self.shards, limits, clock, random, self._commits)
        self._expiry = Expiry(self.shards, store, clock, self._context.end_if_due)
        self._appending = Appending(self._context)
        self._creating = Creating(self._context, self.reads, self._expiry)
        self._disk_full = False
        self._stopping = False
        self._maintenance: asyncio.Task[None] | None = None

    # --- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        self._context.holds.reconcile(held_streams(self.shards, self._store))
        for shard in self.shards:
            for entry in shard.entries.values():
                self._expiry.watch(shard, entry)
        self._check_disk()
        self._maintenance = asyncio.create_task(self._maintain())

    async def stop(self) -> None:
        """Appends in flight finish; everything is saved; nothing more is taken."""
        self._stopping = True
        self._admission.closed = True
        self._admission.refuse_all(Refused(Code.STOPPING))
        if self._maintenance is not None:
            self._maintenance.cancel()
            await asyncio.wait([self._maintenance])
        deadline = asyncio.get_running_loop().time() + STOP_SECONDS_MAX
        while not self._commits.idle.is_set() or self._context.large_bytes:
            if asyncio.get_running_loop().time() > deadline:
                log.error("stopping although a commit is not settled; the next start will settle it")
                break
            await asyncio.sleep(STOP_POLL_SECONDS)
        await self._checkpoints.settle()
        await self._journal.close()
        self._store.close()

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                self._check_disk()
                if not self._commits.broken:
                    self._expiry.sweep()
            except (OSError, StoreDamaged) as error:
                log.error("a look at what is due failed: %s", error)
            self._checkpoints.after_commit(())  # a flush that failed is tried again, though nobody writes
            if self._admission.waiting or self._admission.closed:
                self._reconsider()

    def _check_disk(self) -> None:
        if self._disk is not None:
            disk = os.statvfs(self._disk)
            full = disk.f_bavail * disk.f_frsize < self._limits.disk_free_min_bytes
            if full != self._disk_full:
                log.warning(
                    "the disk is %s", "nearly full: appends are stopped" if full else "no longer full"
                )
                self._disk_full = full
                self._reconsider()

    # --- admission ----------------------------------------------------------------------------

    def _why_not(self) -> Code | None:
        if self._stopping:
            return Code.STOPPING
        if self._disk_full:
            return Code.DISK_FULL
        if self._commits.broken or self._checkpoints.overdue or not self._fits(0):
            return Code.OVERLOADED
        return None

    def _fits(self, length: int) -> bool:
        """Whoever comes when nothing is under way fits, however large."""
        held = self._load.bytes + self._context.large_bytes
        return held == 0 or held + length <= self._limits.in_flight_bytes

    def _reconsider(self) -> None:
        self._admission.reconsider()

    def _room_for(self, length: int) -> bool:
        if self._admission.must_wait or self._commits.broken:
            return False
        return self._fits(length)

    def _after_commit(self, shards: Sequence[Shard]) -> None:
        self._checkpoints.after_commit(shards)
        if self._checkpoints.overdue:
            self._admission.closed = True
        elif self._admission.closed or self._admission.waiting:
            self._reconsider()

    def _park(self, attempt: partial[None], done: Done, length: int) -> None:
        if self._stopping:
            raise Refused(Code.STOPPING)
        self._admission.closed = True
        self._admission.park(attempt, done, length)

    # --- requests -----------------------------------------------------------------------------

    def append(self, key: str, request: AppendRequest, body: bytes, done: Done) -> None:
        if self._room_for(len(body)):
            self._appending.append(key, request, body, done)
        else:
            self._park(partial(self.append, key, request, body, done), done, len(body))

    def create(self, key: str, request: CreateRequest, body: bytes, done: Done) -> None:
        if self._room_for(len(body)):
            self._creating.create(key, request, body, done)
        else:
            self._park(partial(self.create, key, request, body, done), done, len(body))

    def delete(self, key: str, done: Done) -> None:
        """Goes on when the disk is full: it is what makes room."""
        if self._stopping or self._commits.broken:
            return self._park(partial(self.delete, key, done), done, 0)
        shard = self._context.shard(key)
        entry = shard.find(key)
        if entry is None:
            raise Refused(Code.STREAM_NOT_FOUND)
        self._context.end_if_due(shard, entry)
        state = entry.latest
        if state is None or state.life is not Life.LIVE:
            return self._context.answer(entry, gone(state), done)
        self._context.end(shard, entry, expired=False).callbacks.append((done, None))

    def look(self, key: str, done: Done, *, touches: bool) -> None:
        """The entry of a live stream, for reading its durable state."""
        shard = self._context.shard(key)
        shard.forget()
        entry = shard.entries.get(key) or shard.find(key)
        if entry is None:
            raise Refused(Code.STREAM_NOT_FOUND)
        if entry.expires_us is not None and not self._commits.broken and entry.durable is not None:
            due = is_due(entry, self._clock.now_us())
            if due or touches:
                record = self._context.check_time(shard, entry)
                if record is not None:
                    record.callbacks.append((partial(self._looked, entry, done), None))
                    return
        self._looked(entry, done, None)

    def _looked(self, entry: Entry, done: Done, outcome: object) -> None:
        if isinstance(outcome, MillstreamError):
            done(outcome)
        elif entry.live() is None:
            done(gone(entry.durable))
        else:
            done(entry)

    def hold_alive(self, entry: Entry) -> None:
        """A live read keeps the sliding window open while it is held."""
        if entry.expires_us is not None and entry.live() is not None and not self._commits.broken:
            self._context.check_time(self._context.shard(entry.key), entry)

    def watch(self, entry: Entry, waiter: Waiter) -> Entry:
        """The entry that is being watched: the one that changes are applied to."""
        entry = self._context.shard(entry.key).entries.setdefault(entry.key, entry)
        entry.gather_audience().waiters[waiter] = None
        return entry

    def unwatch(self, entry: Entry, waiter: Waiter) -> None:
        if entry.audience is not None:
            entry.audience.waiters.pop(waiter, None)
            if not entry.audience.waiters:
                entry.audience = None
