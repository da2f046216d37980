"""Group commit: one commit in flight while the next one fills (ARCHITECTURE §5).

Whoever adds a fact to a shard calls `wake`. A commit begins when the event loop has handled
everything that is readable now, so that a burst of requests shares one write and one sync.
When a commit fails, nothing is decided until the journal has been reopened and has said what it
found; then every request is told the truth.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from millstream.contracts import CommitUnknown, Journal
from millstream.protocol.errors import NotApplied, OutcomeUnknown

from .entry import Entry
from .record import OpenRecord
from .shard import Shard

log = logging.getLogger("millstream.engine")

REOPEN_WAIT_SECONDS = 0.2  # between attempts to reopen a journal whose disk fails
RESOLVE_SECONDS_MAX = 10.0  # how long clients wait to learn what became of their write


class Commits:
    def __init__(
        self,
        journal: Journal,
        after_commit: Callable[[list[Shard]], None],
        after_failure: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._after_commit, self._after_failure = after_commit, after_failure
        self._waiting: dict[Shard, None] = {}
        self._in_flight: list[Shard] = []
        self._scheduled = False
        self._resolving: asyncio.Task[None] | None = None
        self.idle = asyncio.Event()
        self.idle.set()

    @property
    def broken(self) -> bool:
        """A commit failed and its outcome is not known yet: nothing may be decided."""
        return self._resolving is not None

    def wake(self, shard: Shard) -> None:
        self._waiting[shard] = None
        if not self._scheduled and not self._in_flight and self._resolving is None:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        self.idle.clear()
        asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        self._scheduled = False
        if self._in_flight or self._resolving is not None:
            return
        records = []
        waiting, self._waiting = self._waiting, {}
        for shard in waiting:
            record = shard.commit_next()
            if record is not None:
                records.append(record)
                self._in_flight.append(shard)
                if shard.has_open():
                    self._waiting[shard] = None
        if records:
            self._journal.commit(records, self._done)
        else:
            self.idle.set()

    def _done(self, error: BaseException | None) -> None:
        if error is not None:
            self._resolving = asyncio.get_running_loop().create_task(self._resolve(error))
            return
        shards, self._in_flight = self._in_flight, []
        records = [shard.in_flight for shard in shards]
        woken: list[Entry] = []
        for shard in shards:
            woken.extend(shard.committed())
        if self._waiting:
            # Not at once: who is answered now writes again soon, and fewer, fuller commits cost less
            # than the disk's idling (measured: a fifth more appends over 16 connections).
            self._schedule()
        else:
            self.idle.set()
        for entry in woken:
            entry.wake()
        for record in records:
            assert record is not None
            for done, answer in record.callbacks:
                try:
                    done(answer)
                except Exception:  # as in `tell`, without its call
                    log.exception("an answer could not be given")
        self._after_commit(shards)

    async def _resolve(self, error: BaseException) -> None:
        """Reopen the journal until it works; then the truth. Late truths become 'unknown'."""
        log.error("a commit failed (%s); reads go on, writes wait until the journal is reopened", error)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + RESOLVE_SECONDS_MAX
        told = False
        while True:
            try:
                await self._journal.reopen()
                break
            except (OSError, CommitUnknown) as again:
                log.error("the journal does not reopen: %s", again)
            if not told and loop.time() > deadline:
                told = True
                self._give_up_waiting()
            await asyncio.sleep(REOPEN_WAIT_SECONDS)
        self._settle()
        log.warning("the journal is open again; writes go on")

    def _give_up_waiting(self) -> None:
        """Nobody is left waiting: the record on its way is unknown, the others were never sent."""
        for shard in dict.fromkeys((*self._in_flight, *self._waiting)):
            if shard.in_flight is not None:
                shard.in_flight.fail(OutcomeUnknown())
            for record in shard.waiting_records():
                record.fail(NotApplied())

    def _settle(self) -> None:
        touched = dict.fromkeys((*self._in_flight, *self._waiting))
        self._in_flight, self._waiting = [], {}
        self._resolving = None
        found: list[Shard] = []
        answered: list[OpenRecord] = []
        lost: list[OpenRecord] = []
        for shard in touched:
            tail = self._journal.tail(shard.index)
            record = shard.in_flight
            if record is not None and record.sealed is not None and record.sealed.hash == tail.hash:
                for entry in shard.committed():
                    entry.wake()
                answered.append(record)
                found.append(shard)
            lost.extend(shard.failed(tail))
        for record in answered:  # only now, for an answer may lead to the next fact
            record.answer()
        for record in lost:
            record.fail(NotApplied())
        if not self._scheduled:
            self.idle.set()
        self._after_commit(found)
        self._after_failure()
