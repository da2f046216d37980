"""PUT: a new stream, a repetition, or a fork, which takes two shards one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec

from msgspec import Struct
from msgspec.structs import replace

from millstream.contracts import StoreDamaged
from millstream.protocol import creates
from millstream.protocol.creates import CreateRequest
from millstream.protocol.errors import Code, MillstreamError, NotApplied, OutcomeUnknown, Refused
from millstream.protocol.facts import Ends, ForkOrigin, HoldAdded
from millstream.protocol.media import is_json
from millstream.protocol.state import Life, StreamState
from millstream.protocol.times import SECOND_US

from .bodies import needs_parts
from .context import Context
from .entry import Entry
from .expiry import Expiry, state_ahead
from .forks import hold_of, origin_for
from .reads import Reads
from .record import Done, as_told
from .shard import Shard

Arguments = ParamSpec("Arguments")


class Plan(Struct, frozen=True):
    """A creation that has been looked at and not yet been made."""

    key: str
    shard: Shard
    incarnation: int
    request: CreateRequest
    done: Done
    source: StreamState | None = None
    origin: ForkOrigin | None = None


class Creating:
    def __init__(self, context: Context, reads: Reads, expiry: Expiry) -> None:
        self._context, self._reads, self._expiry = context, reads, expiry

    def create(self, key: str, request: CreateRequest, body: bytes, done: Done) -> None:
        context = self._context
        shard = context.shard(key)
        entry = shard.find(key)
        if entry is not None:
            context.end_if_due(shard, entry)
        try:
            taken = creates.check_against(None if entry is None else entry.latest, request)
        except Refused as refusal:
            if entry is None:
                raise
            return context.answer(entry, refusal, done)
        if taken is not None and entry is not None:
            return context.answer(entry, taken, done)
        if request.fork is not None:
            return self._fork(key, request, body, done)
        plan = Plan(key, shard, shard.new_incarnation(), request, done)
        context.with_stored_form(
            body, is_json(request.content_type or ""), True, partial(self._make, plan), done
        )

    def _make(self, plan: Plan, data: bytes, ends: Ends) -> None:
        if not needs_parts(data, ends):
            return self._place(plan, data, ends, 0)
        then = partial(self._place, plan, b"", None)
        self._context.send_ahead(plan.shard, data, ends, then, plan.done)

    def _place(self, plan: Plan, data: bytes, ends: Ends, group: int) -> None:
        """The creation itself; the path is looked at once more, for time may have passed."""
        context, shard = self._context, plan.shard
        try:
            entry = shard.find_or_make(plan.key)
        except (OSError, StoreDamaged) as error:
            shard.parts.pop(group, None)
            return plan.done(as_told(error))
        answer: object
        try:
            answer = creates.check_against(entry.latest, plan.request)
            if plan.origin is not None and plan.origin.hold in shard.holds_refused:
                raise NotApplied("The fork was given up meanwhile.")
        except MillstreamError as error:
            answer = error
        if answer is not None:
            shard.parts.pop(group, None)
            return context.answer(entry, answer, plan.done)
        fact = creates.created_fact(
            plan.request, context.clock.now_us(), plan.source, plan.origin, data, ends, group
        )
        record = shard.add_created(entry, plan.incarnation, fact)
        assert entry.ahead is not None
        done = partial(self._created, shard, entry, plan.done)
        record.callbacks.append((done, creates.answer_of(entry.ahead, 201)))
        context.wake(shard)

    def _created(self, shard: Shard, entry: Entry, done: Done, answer: object) -> None:
        state = entry.durable
        if not isinstance(answer, MillstreamError) and state is not None:
            if state.ttl_seconds is not None:
                entry.expires_us = self._context.clock.now_us() + state.ttl_seconds * SECOND_US
            self._expiry.watch(shard, entry)
        done(answer)

    # --- forks --------------------------------------------------------------------------------

    def _fork(self, key: str, request: CreateRequest, body: bytes, done: Done) -> None:
        """Everything is checked before the source's shard journals the hold."""
        assert request.fork is not None
        entry = self._source(request.fork.source)
        if entry.record is not None and _is_turning(entry):  # look again afterwards
            again = partial(self.create, key, request, body, done)
            entry.record.callbacks.append((_turned(done, again), None))
            return
        source = _living(entry)
        self._origin(source, request)
        then = _told(done, partial(self._hold, key, request, done))
        self._context.with_stored_form(body, source.is_json, True, then, done)

    def _origin(self, source: StreamState, request: CreateRequest) -> ForkOrigin:
        assert request.fork is not None
        depth_max = self._context.limits.fork_depth_max
        return origin_for(source, request.fork, request.content_type, self._reads, depth_max)

    def _source(self, key: str) -> Entry:
        shard = self._context.shard(key)
        entry = shard.find(key)
        if entry is None:
            raise Refused(Code.SOURCE_NOT_FOUND)
        if entry.record is None:
            self._context.end_if_due(shard, entry)
        return entry

    def _hold(self, key: str, request: CreateRequest, done: Done, data: bytes, ends: Ends) -> None:
        context, fork = self._context, request.fork
        assert fork is not None
        source_entry = self._source(fork.source)
        if source_entry.record is not None and _is_turning(source_entry):  # while the body was flattened
            again = partial(self._hold, key, request, done, data, ends)
            source_entry.record.callbacks.append((_turned(done, again), None))
            return
        source = _living(source_entry)
        found = self._origin(source, request)
        shard = context.shard(key)
        incarnation = shard.new_incarnation(source.incarnation)
        hold = hold_of(key, incarnation)
        origin = replace(found, hold=hold)

        def settled(answer: object) -> None:
            """Whatever kept this very stream from being made releases its hold; not what may have made it."""
            if isinstance(answer, OutcomeUnknown):
                return done(answer)
            if isinstance(answer, MillstreamError) or getattr(answer, "status", 0) != 201:
                context.holds.release(origin.source, origin.source_incarnation, hold)
            done(answer)

        def held(outcome: object) -> None:
            if isinstance(outcome, MillstreamError):
                return done(outcome)
            self._make(Plan(key, shard, incarnation, request, settled, source, origin), data, ends)

        source_shard = context.shard(fork.source)
        record = source_shard.add_change(source_entry, state_ahead(source_entry), HoldAdded(hold))
        record.callbacks.append((held, None))
        context.wake(source_shard)


def _turned(done: Done, step: Callable[[], None]) -> Done:
    """The step, when its source's end or creation is durable; the error, when that has failed."""
    told = _told(done, step)

    def run(outcome: object) -> None:
        if isinstance(outcome, MillstreamError):
            return done(outcome)
        told()

    return run


def _is_turning(entry: Entry) -> bool:
    """Whether a stream's creation or its end is in flight."""
    ahead, durable = entry.ahead, entry.durable
    if ahead is None or durable is None:
        return True
    return (ahead.incarnation, ahead.life) != (durable.incarnation, durable.life)


def _living(entry: Entry) -> StreamState:
    state = entry.durable
    if state is None or state.life is Life.REMOVED:
        raise Refused(Code.SOURCE_NOT_FOUND)
    if state.life is Life.ENDED:
        raise Refused(Code.SOURCE_DELETED)
    return state


def _told(done: Done, step: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """A step that may run later: what it refuses is told, not raised."""

    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            step(*args, **kwargs)
        except (MillstreamError, StoreDamaged, OSError) as error:
            done(as_told(error))

    return run
