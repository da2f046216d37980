"""What appending, creating and reading have in common: the shards, the limits, and who is waited for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from millstream.contracts import Clock, Random
from millstream.protocol.errors import Code, MillstreamError, Refused
from millstream.protocol.facts import Ended, Ends
from millstream.protocol.json_messages import MESSAGES_MAX
from millstream.protocol.placement import shard_of
from millstream.protocol.state import Life, StreamState

from .bodies import Flattening, PartUpload, is_large, stored_form
from .checkpoints import CheckpointLimits
from .commits import Commits
from .entry import Entry
from .expiry import is_due, state_ahead, touch
from .forks import Holds
from .record import Done, OpenRecord
from .shard import Shard


class EngineLimits(Struct, frozen=True):
    in_flight_bytes: int = 64 << 20
    admission_wait_seconds: float = 2.0
    parked_bytes: int = 64 << 20
    messages_max: int = MESSAGES_MAX
    fork_depth_max: int = 1000
    disk_free_min_bytes: int = 256 << 20
    entries_max: int = 200_000  # streams whose state stays in memory, all shards together
    checkpoint: CheckpointLimits = CheckpointLimits()


def gone(state: StreamState | None) -> Refused:
    """The refusal for a stream that is not there (any more)."""
    if state is not None and state.life is Life.ENDED:
        return Refused(Code.STREAM_GONE)
    return Refused(Code.STREAM_NOT_FOUND)


class Context:
    def __init__(
        self, shards: Sequence[Shard], limits: EngineLimits, clock: Clock, random: Random, commits: Commits
    ) -> None:
        self.shards, self.limits, self.clock, self.random = shards, limits, clock, random
        self.commits = commits
        self.wake = commits.wake
        self.holds = Holds(shards, commits.wake)
        self.large_bytes = 0  # bodies that are being flattened or sent ahead as Parts
        self._count = len(shards)

    def shard(self, key: str) -> Shard:
        return self.shards[shard_of(key, self._count)]

    def answer(self, entry: Entry, answer: object, done: Done, waits: OpenRecord | None = None) -> None:
        """An answer that may rest on facts in flight is given when they are durable."""
        record = waits or entry.record
        if record is not None:
            record.callbacks.append((done, answer))
        else:
            done(answer)

    # --- time ---------------------------------------------------------------------------------

    def end_if_due(self, shard: Shard, entry: Entry) -> None:
        """Past its deadline a stream ends by a fact; until that is durable, its answers wait."""
        if entry.expires_us is None or not is_due(entry, self.clock.now_us()):
            return
        state, durable = entry.latest, entry.durable
        if state is None or durable is None or state.incarnation != durable.incarnation:
            return  # the deadline is that of the stream before
        if state.life is Life.LIVE:
            self.end(shard, entry, expired=True)

    def check_time(self, shard: Shard, entry: Entry) -> OpenRecord | None:
        """Expire the stream if its time has come, else restart its window."""
        now = self.clock.now_us()
        if is_due(entry, now):
            self.end_if_due(shard, entry)
            return entry.record
        record = touch(shard, entry, now)
        if shard.has_open():
            self.wake(shard)
        return record

    def end(self, shard: Shard, entry: Entry, *, expired: bool) -> OpenRecord:
        ahead = state_ahead(entry)
        soft = bool(ahead.holds)
        record = shard.add_change(entry, ahead, Ended(expired, soft))
        if not soft:
            released = self.holds.released_by(ahead)
            if released is not None:
                record.callbacks.append((released, None))
        self.wake(shard)
        return record

    # --- bodies -------------------------------------------------------------------------------

    def with_stored_form(
        self,
        body: bytes,
        is_json: bool,
        allow_empty: bool,
        then: Callable[[bytes, Ends], None],
        failed: Callable[[MillstreamError], None],
    ) -> None:
        """Flatten a body, a large one in slices. A refusal that is certain now is raised."""
        if not is_large(body, is_json):
            return then(*stored_form(body, is_json, self.limits.messages_max, allow_empty=allow_empty))
        self.large_bytes += len(body)

        def finished(data: bytes, ends: Ends, count: int) -> None:
            self.large_bytes -= len(body)
            if not count and not allow_empty:
                return failed(Refused(Code.EMPTY_ARRAY))
            then(data, ends)

        def refused(error: MillstreamError) -> None:
            self.large_bytes -= len(body)
            failed(error)

        Flattening(body, self.limits.messages_max, finished, refused).advance()

    def send_ahead(
        self,
        shard: Shard,
        data: bytes,
        ends: Ends,
        then: Callable[[int], None],
        failed: Callable[[MillstreamError], None],
    ) -> None:
        """A large body as Parts; `then` is called with their group when all of them are durable."""
        self.large_bytes += len(data)

        def ready(group: int) -> None:
            self.large_bytes -= len(data)
            then(group)

        def refused(error: MillstreamError) -> None:
            self.large_bytes -= len(data)
            failed(error)

        group = self.random.below(1 << 62) + 1
        PartUpload(shard, self.wake, group, data, ends, ready, refused).advance()
