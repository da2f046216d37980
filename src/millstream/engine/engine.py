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

from msgspec import Struct

from millstream.contracts import Clock, Journal, Random, Store
from millstream.protocol import appends, creates
from millstream.protocol.appends import AppendRequest
from millstream.protocol.creates import CreateRequest
from millstream.protocol.errors import Code, MillstreamError, NotApplied, Refused
from millstream.protocol.facts import Appended, Ended, Ends, ForkOrigin, HoldAdded
from millstream.protocol.json_messages import MESSAGES_MAX
from millstream.protocol.placement import shard_of
from millstream.protocol.state import Life, StreamState

from .admission import Admission
from .bodies import PART_BYTES, PartUpload, stored_form
from .checkpoints import CheckpointLimits, Checkpoints
from .commits import Commits
from .entry import Entry, Waiter
from .expiry import SWEEP_SECONDS, Expiry, is_due, state_ahead, touch
from .forks import Holds, hold_of, origin_for
from .reads import Reads
from .record import Done, OpenRecord
from .recovery import held_streams, recover
from .shard import Shard

log = logging.getLogger("millstream.engine")


class EngineLimits(Struct, frozen=True):
    in_flight_bytes: int = 64 << 20
    admission_wait_seconds: float = 2.0
    messages_max: int = MESSAGES_MAX
    disk_free_min_bytes: int = 256 << 20
    checkpoint: CheckpointLimits = CheckpointLimits()


def gone(state: StreamState | None) -> Refused:
    """The refusal for a stream that is not there (any more)."""
    if state is not None and state.life is Life.ENDED:
        return Refused(Code.STREAM_GONE)
    return Refused(Code.STREAM_NOT_FOUND)


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
        self._journal, self._store, self._clock, self._random = journal, store, clock, random
        self._limits, self._disk = limits, disk
        self.shards = [Shard(index, store, clock, random) for index in range(shards)]
        self._shard_count = shards
        self.replayed = recover(self.shards, store, journal)
        self.reads = Reads(self.shards, store)
        self._commits = Commits(journal, self._after_commit, self._reconsider)
        self._checkpoints = Checkpoints(self.shards, store, journal, limits.checkpoint, self._reconsider)
        self._admission = Admission(self._why_not, limits.admission_wait_seconds)
        self._holds = Holds(self.shards, self._commits.wake)
        self._expiry = Expiry(self.shards, store, clock, self._expire)
        self._in_flight_bytes = 0
        self._part_bytes = 0
        self._disk_full = False
        self._stopping = False
        self._maintenance: asyncio.Task[None] | None = None

    # --- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        self._holds.reconcile(held_streams(self.shards, self._store))
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
        await self._commits.idle.wait()
        await self._checkpoints.settle()
        await self._journal.close()
        self._store.close()

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self._check_disk()
            self._expiry.sweep()
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
        if (
            self._commits.broken
            or self._in_flight_bytes + self._part_bytes > self._limits.in_flight_bytes
            or self._checkpoints.overdue
        ):
            return Code.OVERLOADED
        return None

    def _reconsider(self) -> None:
        self._admission.reconsider()

    def _room_for(self, length: int) -> bool:
        if self._admission.closed or self._admission.waiting or self._commits.broken:
            return False
        self._in_flight_bytes += length
        if self._in_flight_bytes > self._limits.in_flight_bytes:
            self._admission.closed = True
        return True

    def _after_commit(self, shards: Sequence[Shard]) -> None:
        held = 0
        for shard in self.shards:
            if shard.in_flight is not None:
                held += shard.in_flight.length
            if shard.open is not None:
                held += shard.open.length
        self._in_flight_bytes = held
        self._checkpoints.after_commit(shards)
        if self._checkpoints.overdue:
            self._admission.closed = True
        elif self._admission.closed or self._admission.waiting:
            self._reconsider()

    def _park(self, attempt: partial[None], done: Done) -> None:
        if self._stopping:
            raise Refused(Code.STOPPING)
        self._admission.closed = True
        self._admission.park(attempt, done)

    # --- append -------------------------------------------------------------------------------

    def append(self, key: str, request: AppendRequest, body: bytes, done: Done) -> None:
        if not self._room_for(len(body)):
            self._park(partial(self.append, key, request, body, done), done)
            return None
        shard = self.shards[shard_of(key, self._shard_count)]
        entry = shard.entries.get(key) or shard.find(key)
        if entry is None:
            raise Refused(Code.STREAM_NOT_FOUND)
        waits: OpenRecord | None = None
        if entry.expires_us is not None:
            waits = self._check_time(shard, entry)
        state = entry.ahead or entry.latest
        if state is None or state.life is not Life.LIVE:
            return self._answer(entry, gone(state), done)
        empty = not body
        try:
            answer = appends.decide(state, request, empty)
            if answer is not None:
                return self._answer(entry, answer, done, waits)
            data, ends = stored_form(body, state.is_json, self._limits.messages_max, allow_empty=False)
        except Refused as refusal:
            return self._answer(entry, refusal, done, waits)
        if len(data) > PART_BYTES:
            return self._append_in_parts(shard, entry.key, request, data, ends, done)
        self._append(shard, entry, state_ahead(entry), request, data, ends, 0, done)

    def _append(
        self,
        shard: Shard,
        entry: Entry,
        ahead: StreamState,
        request: AppendRequest,
        data: bytes,
        ends: Ends,
        group: int,
        done: Done,
    ) -> None:
        fact = Appended(
            ahead.tail, data, ends, request.producer, request.stream_seq, request.closes, None, group
        )
        length = len(data) if not group else shard.part_length(group)
        record = shard.add_append(entry, ahead, fact, length)
        record.callbacks.append((done, appends.answer_of(ahead, request, not length)))
        self._commits.wake(shard)

    def _append_in_parts(
        self, shard: Shard, key: str, request: AppendRequest, data: bytes, ends: Ends, done: Done
    ) -> None:
        self._part_bytes += len(data)

        def ready(group: int) -> None:
            self._part_bytes -= len(data)
            entry = shard.find(key)
            state = None if entry is None else entry.latest
            if entry is None or state is None or state.life is not Life.LIVE:
                upload.drop()
                return done(gone(state))
            try:
                answer = appends.decide(state, request, False)
            except Refused as refusal:
                upload.drop()
                return self._answer(entry, refusal, done)
            if answer is not None:
                upload.drop()
                return self._answer(entry, answer, done)
            self._append(shard, entry, state_ahead(entry), request, b"", None, group, done)

        def failed(error: MillstreamError) -> None:
            self._part_bytes -= len(data)
            done(error)

        group = self._random.below(1 << 62) + 1
        upload = PartUpload(shard, self._commits.wake, group, data, ends, ready, failed)
        upload.advance()

    def _answer(self, entry: Entry, answer: object, done: Done, waits: OpenRecord | None = None) -> None:
        """An answer that may rest on facts in flight is given when they are durable."""
        record = waits or entry.record
        if record is not None:
            record.callbacks.append((done, answer))
        else:
            done(answer)

    # --- time ---------------------------------------------------------------------------------

    def _check_time(self, shard: Shard, entry: Entry) -> OpenRecord | None:
        """Expire the stream if its time has come, else restart its window."""
        now = self._clock.now_us()
        if is_due(entry, now):
            state = entry.latest
            if state is not None and state.life is Life.LIVE:
                self._expire(shard, entry)
            return entry.record
        record = touch(shard, entry, now)
        if shard.has_open():
            self._commits.wake(shard)
        return record

    def _expire(self, shard: Shard, entry: Entry) -> None:
        self._end(shard, entry, expired=True)

    def _end(self, shard: Shard, entry: Entry, *, expired: bool) -> OpenRecord:
        ahead = state_ahead(entry)
        soft = bool(ahead.holds)
        record = shard.add_change(entry, ahead, Ended(expired, soft))
        if not soft:
            released = self._holds.released_by(entry, ahead)
            if released is not None:
                record.callbacks.append((released, None))
        self._commits.wake(shard)
        return record

    # --- create -------------------------------------------------------------------------------

    def create(self, key: str, request: CreateRequest, body: bytes, done: Done) -> None:
        if not self._room_for(len(body)):
            self._park(partial(self.create, key, request, body, done), done)
            return None
        shard = self.shards[shard_of(key, self._shard_count)]
        entry = shard.find(key)
        if entry is not None and entry.expires_us is not None:
            if is_due(entry, self._clock.now_us()) and (now := entry.latest) and now.life is Life.LIVE:
                self._expire(shard, entry)
        try:
            taken = creates.check_against(None if entry is None else entry.latest, request)
        except Refused as refusal:
            if entry is None:
                raise
            return self._answer(entry, refusal, done)
        if taken is not None and entry is not None:
            return self._answer(entry, taken, done)
        if request.fork is not None:
            return self._create_fork(key, request, body, done)
        is_json = StreamState("", 0, request.content_type or "").is_json
        data, ends = stored_form(body, is_json, self._limits.messages_max, allow_empty=True)
        self._create(shard, key, shard.new_incarnation(), request, None, None, data, ends, done)

    def _create(
        self,
        shard: Shard,
        key: str,
        incarnation: int,
        request: CreateRequest,
        source: StreamState | None,
        origin: ForkOrigin | None,
        data: bytes,
        ends: Ends,
        done: Done,
    ) -> None:
        if len(data) > PART_BYTES:
            self._part_bytes += len(data)

            def finished(group: int | MillstreamError) -> None:
                self._part_bytes -= len(data)
                if isinstance(group, MillstreamError):
                    return done(group)
                self._place(shard, key, incarnation, request, source, origin, b"", None, group, done)

            group = self._random.below(1 << 62) + 1
            PartUpload(shard, self._commits.wake, group, data, ends, finished, finished).advance()
            return
        self._place(shard, key, incarnation, request, source, origin, data, ends, 0, done)

    def _place(
        self,
        shard: Shard,
        key: str,
        incarnation: int,
        request: CreateRequest,
        source: StreamState | None,
        origin: ForkOrigin | None,
        data: bytes,
        ends: Ends,
        group: int,
        done: Done,
    ) -> None:
        """The creation itself; the path is looked at once more, for time may have passed."""
        entry = shard.find_or_make(key)
        try:
            taken = creates.check_against(entry.latest, request)
            if origin is not None and origin.hold in shard.holds_refused:
                raise NotApplied("The fork was given up meanwhile.")
        except MillstreamError as error:
            shard.parts.pop(group, None)
            return self._answer(entry, error, done)
        if taken is not None:
            shard.parts.pop(group, None)
            return self._answer(entry, taken, done)
        fact = creates.created_fact(request, self._clock.now_us(), source, origin, data, ends, group)
        record = shard.add_created(entry, incarnation, fact)
        assert entry.ahead is not None
        entry.expires_us = entry.expires_us if entry.durable is not None else fact.deadline_us
        record.callbacks.append(
            (partial(self._created, shard, entry, done), creates.answer_of(entry.ahead, 201))
        )
        self._commits.wake(shard)

    def _created(self, shard: Shard, entry: Entry, done: Done, answer: object) -> None:
        if not isinstance(answer, MillstreamError) and entry.durable is not None:
            state = entry.durable
            if state.ttl_seconds is not None:
                entry.expires_us = self._clock.now_us() + state.ttl_seconds * 1_000_000
            self._expiry.watch(shard, entry)
        done(answer)

    def _create_fork(self, key: str, request: CreateRequest, body: bytes, done: Done) -> None:
        fork = request.fork
        assert fork is not None
        source_shard = self._holds.shard(fork.source)
        source_entry = source_shard.find(fork.source)
        if source_entry is None:
            raise Refused(Code.SOURCE_NOT_FOUND)
        if source_entry.expires_us is not None and is_due(source_entry, self._clock.now_us()):
            if source_entry.live() is not None and source_entry.record is None:
                self._expire(source_shard, source_entry)
        if source_entry.record is not None:  # its creation or end is in flight: look again afterwards
            again = partial(self._fork_again, key, request, body, done)
            source_entry.record.callbacks.append((again, None))
            return
        source = source_entry.durable
        if source is None or source.life is Life.REMOVED:
            raise Refused(Code.SOURCE_NOT_FOUND)
        if source.life is Life.ENDED:
            raise Refused(Code.SOURCE_DELETED)
        origin = origin_for(source, fork, request.content_type, self.reads)
        data, ends = stored_form(body, source.is_json, self._limits.messages_max, allow_empty=True)
        shard = self.shards[shard_of(key, self._shard_count)]
        incarnation = shard.new_incarnation(source.incarnation)
        hold = hold_of(key, incarnation)
        origin = ForkOrigin(
            origin.source,
            origin.source_incarnation,
            origin.lineage,
            origin.requested_offset,
            origin.requested_sub_offset,
            hold,
        )

        def settled(answer: object) -> None:
            """Whatever kept this very stream from being made releases its hold."""
            if isinstance(answer, MillstreamError) or getattr(answer, "status", 0) != 201:
                self._holds.release(fork.source, source.incarnation, hold)
            done(answer)

        def held(outcome: object) -> None:
            if isinstance(outcome, MillstreamError):
                return done(outcome)
            self._create(shard, key, incarnation, request, source, origin, data, ends, settled)

        record = source_shard.add_change(source_entry, state_ahead(source_entry), HoldAdded(hold))
        record.callbacks.append((held, None))
        self._commits.wake(source_shard)

    def _fork_again(self, key: str, request: CreateRequest, body: bytes, done: Done, outcome: object) -> None:
        if isinstance(outcome, MillstreamError):
            return done(outcome)
        try:
            self.create(key, request, body, done)
        except MillstreamError as error:
            done(error)

    # --- delete, look, wait -------------------------------------------------------------------

    def delete(self, key: str, done: Done) -> None:
        if self._stopping or self._commits.broken:
            self._park(partial(self.delete, key, done), done)
            return None
        shard = self.shards[shard_of(key, self._shard_count)]
        entry = shard.find(key)
        if entry is None:
            raise Refused(Code.STREAM_NOT_FOUND)
        if is_due(entry, self._clock.now_us()) and (now := entry.latest) and now.life is Life.LIVE:
            self._expire(shard, entry)
        state = entry.latest
        if state is None or state.life is not Life.LIVE:
            return self._answer(entry, gone(state), done)
        self._end(shard, entry, expired=False).callbacks.append((done, None))

    def look(self, key: str, done: Done, *, touches: bool) -> None:
        """The entry of a live stream, for reading its durable state."""
        shard = self.shards[shard_of(key, self._shard_count)]
        entry = shard.entries.get(key) or shard.find(key)
        if entry is None:
            raise Refused(Code.STREAM_NOT_FOUND)
        if entry.expires_us is not None and not self._commits.broken and entry.durable is not None:
            due = is_due(entry, self._clock.now_us())
            if due or touches:
                record = self._check_time(shard, entry)
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
            self._check_time(self._holds.shard(entry.key), entry)

    def watch(self, entry: Entry, waiter: Waiter) -> None:
        entry.gather_audience().waiters[waiter] = None

    def unwatch(self, entry: Entry, waiter: Waiter) -> None:
        if entry.audience is not None:
            entry.audience.waiters.pop(waiter, None)
