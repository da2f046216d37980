"""Expiry: sliding windows and absolute instants (ARCHITECTURE §2, amendments §1).

Only the owner's clock decides, and only by a fact: past its deadline a stream gets `Ended` in the
journal, and whoever asked is answered when that is durable. A sliding window is renewed in memory
by every touch, and in the journal only when the touch comes near what was journalled; so a crash
may lengthen a window and never shortens it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from millstream.contracts import Clock, Store
from millstream.protocol.creates import TTL_RENEW, window_deadline
from millstream.protocol.facts import Touched
from millstream.protocol.state import Life, StreamState
from millstream.protocol.times import SECOND_US

from .entry import Entry
from .record import OpenRecord
from .shard import Shard

SWEEP_SECONDS = 1.0
SWEEP_STREAMS_MAX = 200  # per shard and sweep, so that a mass expiry does not hold up the loop
STORE_SWEEP_SECONDS = 30.0
WATCHED_STREAMS_MAX = 100_000  # those beyond it are found in the store, or by who asks for them


def is_due(entry: Entry, now_us: int) -> bool:
    return entry.expires_us is not None and now_us >= entry.expires_us


def touch(shard: Shard, entry: Entry, now_us: int) -> OpenRecord | None:
    """Restart a sliding window. A record is returned if the answer has to wait for it."""
    state = entry.latest
    if state is None or state.ttl_seconds is None or state.life is not Life.LIVE:
        return None
    window = state.ttl_seconds * SECOND_US
    until = now_us + window
    journalled = state.deadline_us or 0
    entry.expires_us = until
    if until <= journalled - window // TTL_RENEW:
        return None
    record = shard.add_change(entry, state_ahead(entry), Touched(window_deadline(state.ttl_seconds, now_us)))
    return record if until > journalled else None


def state_ahead(entry: Entry) -> StreamState:
    ahead = entry.ahead
    if ahead is None:
        assert entry.durable is not None
        ahead = entry.ahead = entry.durable.ahead()
    return ahead


class Expiry:
    """Finds streams whose time has come, though nobody asks for them."""

    def __init__(
        self, shards: Sequence[Shard], store: Store, clock: Clock, end: Callable[[Shard, Entry], object]
    ) -> None:
        self._shards, self._store, self._clock, self._end = shards, store, clock, end
        self._heap: list[tuple[int, int, str]] = []
        self._next_look: dict[str, int] = {}  # one entry of the heap for each stream; others are void
        self._store_sweep_us = 0

    def watch(self, shard: Shard, entry: Entry) -> None:
        if entry.expires_us is not None and len(self._heap) < WATCHED_STREAMS_MAX:
            self._look_at(entry.expires_us, shard.index, entry.key)

    def _look_at(self, time_us: int, index: int, key: str) -> None:
        known = self._next_look.get(key)
        if known is None or time_us < known:
            self._next_look[key] = time_us
            heapq.heappush(self._heap, (time_us, index, key))

    def sweep(self) -> None:
        now = self._clock.now_us()
        if now >= self._store_sweep_us:
            self._store_sweep_us = now + int(STORE_SWEEP_SECONDS * SECOND_US)
            for shard in self._shards:
                for deadline, key in self._store.due(shard.index, now, SWEEP_STREAMS_MAX):
                    self._look_at(deadline, shard.index, key)
        ended = 0
        while self._heap and self._heap[0][0] <= now and ended < SWEEP_STREAMS_MAX:
            time_us, index, key = heapq.heappop(self._heap)
            if self._next_look.get(key) != time_us:
                continue
            del self._next_look[key]
            shard = self._shards[index]
            entry = shard.find(key)
            if entry is None or entry.live() is None or entry.expires_us is None:
                continue
            if is_due(entry, now):
                self._end(shard, entry)
                ended += 1
            else:
                self._look_at(entry.expires_us, index, key)
