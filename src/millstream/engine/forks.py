"""Forks: two shards, one after the other, each step idempotent (ARCHITECTURE §3).

The source's shard journals a hold, then the fork's shard the creation. The hold names the fork by
key and incarnation; it goes when that very stream goes. `reconcile` finishes after a crash what
was left between the two steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from millstream.protocol.creates import ForkRequest
from millstream.protocol.errors import Code, MillstreamError, Refused
from millstream.protocol.facts import ForkOrigin, HoldRefused, HoldReleased
from millstream.protocol.media import essence
from millstream.protocol.offsets import Token
from millstream.protocol.placement import shard_of
from millstream.protocol.positions import not_at_boundary, resolve
from millstream.protocol.state import Life, StreamState

from .entry import Entry
from .expiry import state_ahead
from .reads import Reads
from .shard import Shard


def hold_of(key: str, incarnation: int) -> str:
    return f"{incarnation}:{key}"


def parse_hold(hold: str) -> tuple[str, int]:
    incarnation, _, key = hold.partition(":")
    return key, int(incarnation)


def origin_for(
    source: StreamState, fork: ForkRequest, content_type: str | None, reads: Reads, depth_max: int
) -> ForkOrigin:
    """Everything about the source is checked here, before anything is journalled. No hold yet."""
    if content_type is not None and essence(content_type) != essence(source.content_type):
        raise Refused(
            Code.CONTENT_TYPE_MISMATCH,
            f"The source's content type is {source.content_type}; a fork has the same.",
        )
    position = source.tail if fork.offset is None else _position(source, fork.offset)
    if source.is_json and not reads.is_boundary(source, position):
        raise not_at_boundary(position)
    position = _advance(source, position, fork.sub_offset, reads)
    lineage: list[tuple[str, int, int]] = []
    if source.origin is not None:
        for key, incarnation, upto in source.origin.lineage:
            lineage.append((key, incarnation, min(upto, position)))
            if position <= upto:
                break
    if not lineage or lineage[-1][2] < position or source.origin is None:
        lineage.append((source.key, source.incarnation, position))
    if len(lineage) > depth_max:
        raise Refused(
            Code.INVALID_FORK, f"The fork would inherit from more than {depth_max} streams, one from another."
        )
    return ForkOrigin(source.key, source.incarnation, tuple(lineage), fork.offset_text, fork.sub_offset, "")


def _position(source: StreamState, offset: Token) -> int:
    try:
        return resolve(source, offset)
    except Refused as refusal:
        raise Refused(Code.INVALID_FORK, f"Stream-Fork-Offset: {refusal.message}") from None


def _advance(source: StreamState, position: int, sub_offset: int, reads: Reads) -> int:
    if not sub_offset:
        return position
    if not source.is_json:
        if position + sub_offset > source.tail:
            raise _overshoot(sub_offset)
        return position + sub_offset
    left = sub_offset
    for end in reads.ends(source, position, source.tail):
        left -= 1
        if left == 0:
            return end
    raise _overshoot(sub_offset)


def _overshoot(sub_offset: int) -> Refused:
    return Refused(
        Code.INVALID_FORK, f"Stream-Fork-Sub-Offset {sub_offset} reaches behind the end of the source."
    )


class Holds:
    """Releases holds, upward through sources that only lived for their forks."""

    def __init__(self, shards: Sequence[Shard], wake: Callable[[Shard], None]) -> None:
        self._shards, self._wake = shards, wake

    def shard(self, key: str) -> Shard:
        return self._shards[shard_of(key, len(self._shards))]

    def release(self, source: str, source_incarnation: int, hold: str) -> None:
        shard = self.shard(source)
        entry = shard.find(source)
        if entry is None:
            return
        state = entry.latest
        if state is None or state.incarnation != source_incarnation or hold not in state.holds:
            return
        removes = state.life is Life.ENDED and state.holds == {hold}
        record = shard.add_change(entry, state_ahead(entry), HoldReleased(hold, removes))
        again = partial(self.release, source, source_incarnation, hold)
        record.callbacks.append((partial(self._released, again), state.origin if removes else None))
        self._wake(shard)

    def _released(self, again: Callable[[], None], outcome: object) -> None:
        """A release that failed is tried again: nobody else would before the next start."""
        if isinstance(outcome, MillstreamError):
            return again()
        self._release_upward(outcome)

    def _release_upward(self, origin: object) -> None:
        if isinstance(origin, ForkOrigin):  # an error: what was not released is found by `reconcile`
            self.release(origin.source, origin.source_incarnation, origin.hold)

    def released_by(self, state: StreamState) -> Callable[[object], None] | None:
        """What is to happen when the removal of this fork is durable."""
        origin = state.origin
        if origin is None:
            return None
        return lambda outcome: None if isinstance(outcome, Exception) else self._release_upward(origin)

    def reconcile(self, held: Sequence[Entry]) -> None:
        """After a restart: holds whose fork never came, or has gone."""
        for entry in held:
            state = entry.durable
            for hold in () if state is None else sorted(state.holds):
                key, incarnation = parse_hold(hold)
                target_shard = self.shard(key)
                target = target_shard.find(key)
                if target is not None and target.durable is not None:
                    if target.durable.incarnation == incarnation:
                        continue
                assert state is not None
                record = target_shard.add_nameless(HoldRefused(hold))
                released = ForkOrigin(entry.key, state.incarnation, (), None, 0, hold)
                record.callbacks.append((self._release_upward, released))
                self._wake(target_shard)
