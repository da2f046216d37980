"""POST: decide, add the fact to the shard's open record, leave the answer with it."""

from __future__ import annotations

from functools import partial

from millstream.contracts import StoreDamaged
from millstream.protocol import appends
from millstream.protocol.appends import AppendRequest
from millstream.protocol.errors import Code, Refused
from millstream.protocol.facts import Appended, Ends
from millstream.protocol.state import Life, StreamState

from .bodies import is_large, needs_parts, stored_form
from .context import Context, gone
from .entry import Entry
from .expiry import state_ahead
from .record import Done, OpenRecord, as_told
from .shard import Shard


class Appending:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._wake = context.wake
        self._messages_max = context.limits.messages_max

    def append(self, key: str, request: AppendRequest, body: bytes, done: Done) -> None:
        context = self._context
        shard = context.shard(key)
        entry = shard.entries.get(key) or shard.find(key)
        if entry is None:
            raise Refused(Code.STREAM_NOT_FOUND)
        waits: OpenRecord | None = None
        if entry.expires_us is not None:
            waits = context.check_time(shard, entry)
        state = entry.ahead or entry.durable
        if state is None or state.life is not Life.LIVE:
            return context.answer(entry, gone(state), done)
        try:
            answer = appends.decide(state, request, not body)
            if answer is not None:
                return context.answer(entry, answer, done, waits)
            if is_large(body, state.is_json):
                then = partial(self._append_large, shard, key, request, done)
                return context.with_stored_form(body, True, False, then, done)
            data, ends = stored_form(body, state.is_json, self._messages_max, allow_empty=False)
        except Refused as refusal:
            return context.answer(entry, refusal, done, waits)
        if needs_parts(data, ends):
            return self._send_ahead(shard, key, request, data, ends, done)
        self._add(shard, entry, state_ahead(entry), request, data, ends, 0, done)

    def _add(
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
        self._wake(shard)

    # --- large bodies: time passes between the first look and the append ----------------------

    def _append_large(
        self, shard: Shard, key: str, request: AppendRequest, done: Done, data: bytes, ends: Ends
    ) -> None:
        if needs_parts(data, ends):
            return self._send_ahead(shard, key, request, data, ends, done)
        self._decide_again(shard, key, request, data, ends, 0, done)

    def _send_ahead(
        self, shard: Shard, key: str, request: AppendRequest, data: bytes, ends: Ends, done: Done
    ) -> None:
        def then(group: int) -> None:
            self._decide_again(shard, key, request, b"", None, group, done)

        self._context.send_ahead(shard, data, ends, then, done)

    def _decide_again(
        self,
        shard: Shard,
        key: str,
        request: AppendRequest,
        data: bytes,
        ends: Ends,
        group: int,
        done: Done,
    ) -> None:
        """Append, or drop the Parts."""
        try:
            entry = shard.find(key)
        except (OSError, StoreDamaged) as error:
            shard.parts.pop(group, None)
            return done(as_told(error))
        state = None if entry is None else entry.latest
        answer: object
        if entry is None or state is None or state.life is not Life.LIVE:
            answer = gone(state)
        else:
            try:
                answer = appends.decide(state, request, False)
            except Refused as refusal:
                answer = refusal
            if answer is None:
                return self._add(shard, entry, state_ahead(entry), request, data, ends, group, done)
        shard.parts.pop(group, None)
        if entry is None:
            return done(answer)
        self._context.answer(entry, answer, done)
