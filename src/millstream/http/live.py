"""Live reads: long-poll and SSE. One waiter per request, woken after the durable state changed.

A waiter registers before it looks at the tail again. What readers at the same place are sent is
encoded once per change and shared (`Audience`). A slow subscriber is not written to while its
buffer is full: it goes on from its own position when there is room, so nothing is buffered for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from msgspec import Struct

from millstream.contracts import Clock, Random
from millstream.engine import PIECE_BYTES, Engine, Entry
from millstream.protocol import sse
from millstream.protocol.cursors import JITTER_SECONDS_MAX, current_cursor, next_cursor
from millstream.protocol.errors import Code, MillstreamError, Refused
from millstream.protocol.media import is_text
from millstream.protocol.positions import offset_at
from millstream.protocol.state import Life, StreamState

from .failures import FAILURES, send_error, send_failure
from .reads import ReadPlan, answer_range, starting_position
from .reply import COMMON, NO_STORE, Reply

log = logging.getLogger("millstream.http")

TICK_SECONDS = 0.25
ANSWERS_BYTES_MAX = 4 << 20  # of long-poll answers that may be asked for again
KEY_BYTES_MAX = 1024  # a longer cursor is not ours
SHARED_PLACES_MAX = 16  # of events that are kept for others; who is elsewhere has his own encoded
TOUCH_SECONDS = 0.25  # a window of one second must survive between two touches


class LiveLimits(Struct, frozen=True):
    long_poll_seconds: float = 25.0
    sse_seconds: float = 60.0
    heartbeat_seconds: float = 15.0


class Timed(Protocol):
    def due(self) -> None: ...


class Deadlines:
    """Many waits of the same length: one queue and one timer, instead of a timer each."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: dict[Timed, float] = {}  # in the order of their deadlines
        self._timer: asyncio.TimerHandle | None = None

    def add(self, waiting: Timed) -> None:
        loop = asyncio.get_running_loop()
        self._waiting[waiting] = loop.time() + self._seconds
        if self._timer is None:
            self._timer = loop.call_later(min(TICK_SECONDS, self._seconds), self._tick)

    def discard(self, waiting: Timed) -> None:
        self._waiting.pop(waiting, None)

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = []
        for waiting, deadline in self._waiting.items():
            if deadline > now:
                break
            due.append(waiting)
        try:
            for waiting in due:
                if self._waiting.pop(waiting, None) is not None:
                    waiting.due()
        finally:
            self._timer = loop.call_later(TICK_SECONDS, self._tick) if self._waiting else None


class Live:
    """What all live readers of a process share."""

    def __init__(self, engine: Engine, clock: Clock, random: Random, limits: LiveLimits) -> None:
        self.engine, self.clock, self.random = engine, clock, random
        self.long_polls = Deadlines(limits.long_poll_seconds)
        self.sse_closes = Deadlines(limits.sse_seconds)
        self.heartbeats = Deadlines(limits.heartbeat_seconds)
        self.touches = Deadlines(TOUCH_SECONDS)
        self.readers: dict[LongPoll | Subscriber, None] = {}
        self.answers = Answers()
        self.stopping = False

    def cursor(self, echoed: str | None) -> int:
        now = self.clock.now_us()
        return next_cursor(now, echoed, 1 + self.random.below(JITTER_SECONDS_MAX))

    def read(self, plan: ReadPlan, reply: Reply) -> None:
        begin = self._subscribe if plan.live == "sse" else self._poll
        self.engine.look(plan.key, partial(begin, plan, reply), touches=True)

    def _start(
        self, plan: ReadPlan, reply: Reply, found: Entry | MillstreamError
    ) -> tuple[Entry, StreamState, int] | None:
        try:
            if self.stopping:
                raise Refused(Code.STOPPING)
            if isinstance(found, MillstreamError):
                raise found
            state = found.durable
            assert state is not None
            return found, state, starting_position(self.engine, state, plan.token)
        except FAILURES as error:
            send_failure(reply, error)
            return None

    def _poll(self, plan: ReadPlan, reply: Reply, found: Entry | MillstreamError) -> None:
        started = self._start(plan, reply, found)
        if started is not None:
            entry, state, position = started
            LongPoll(self, plan, reply, entry, state.incarnation, position).look(entry)

    def _subscribe(self, plan: ReadPlan, reply: Reply, found: Entry | MillstreamError) -> None:
        started = self._start(plan, reply, found)
        if started is not None:
            entry, state, position = started
            Subscriber(self, plan, reply, entry, state, position).begin()

    def stop(self) -> None:
        """Everybody is sent home politely: an empty answer, the end of the events."""
        self.stopping = True
        for reader in list(self.readers):
            reader.due()


class LongPoll:
    def __init__(
        self, live: Live, plan: ReadPlan, reply: Reply, entry: Entry, incarnation: int, position: int
    ) -> None:
        self._live, self._plan, self._reply, self._entry = live, plan, reply, entry
        self._incarnation, self._position = incarnation, position
        self._waiting = False

    def look(self, entry: Entry) -> None:
        """Answer if there is something to say, else wait."""
        state = entry.durable
        if state is None or state.incarnation != self._incarnation or state.life is not Life.LIVE:
            self._leave()
            gone = state is not None and state.life is Life.ENDED and state.incarnation == self._incarnation
            send_error(self._reply, Refused(Code.STREAM_GONE if gone else Code.STREAM_NOT_FOUND))
        elif state.tail > self._position:
            self._leave()
            try:
                self._answer(state)
            except FAILURES as failure:  # whoever wakes us cannot answer it
                send_failure(self._reply, failure)
        elif state.closed or self._live.stopping:
            self._leave()
            self._empty(state)
        elif not self._waiting:
            self._waiting = True
            self._entry = self._live.engine.watch(entry, self)
            self._live.readers[self] = None
            self._live.long_polls.add(self)
            if state.ttl_seconds is not None:
                self._live.touches.add(Touch(self._live, self))
            self._reply.on_close = self._leave

    wake = look

    def due(self) -> None:
        if self._waiting:
            self._leave()
            state = self._entry.durable
            if state is None:
                return send_error(self._reply, Refused(Code.STREAM_NOT_FOUND))
            self._empty(state)

    def _leave(self) -> None:
        if self._waiting:
            self._waiting = False
            self._reply.on_close = None
            self._live.engine.unwatch(self._entry, self)
            self._live.readers.pop(self, None)
            self._live.long_polls.discard(self)

    def held(self) -> Entry | None:
        return self._entry if self._waiting else None

    def _empty(self, state: StreamState) -> None:
        headers = f"Stream-Next-Offset: {offset_at(state, state.tail)}\r\nStream-Up-To-Date: true\r\n"
        if state.closed:
            headers += "Stream-Closed: true\r\n"
        else:
            headers += f"Stream-Cursor: {self._live.cursor(self._plan.cursor)}\r\n"
        self._reply.send(204, NO_STORE + headers.encode())

    def _answer(self, state: StreamState) -> None:
        """Everybody who waited at one place with one cursor is sent one and the same answer."""
        end = state.tail
        plan = self._plan
        now = current_cursor(self._live.clock.now_us())
        place = (state.key, state.incarnation, self._position, end, state.closed)
        key = (place, plan.cursor, now, plan.max_bytes, plan.ndjson)
        shared = self._live.answers
        answer = shared.get(key)
        if answer is None and end - self._position <= PIECE_BYTES and len(plan.cursor or "") < KEY_BYTES_MAX:
            capture = Captured()
            self._answer_to(capture, state, end)
            if capture.answer is not None:
                answer = capture.answer
                if answer[0] == 200:
                    shared.keep(key, answer)
        if answer is None:
            return self._answer_to(self._reply, state, end)
        self._reply.send(*answer)

    def _answer_to(self, reply: Reply, state: StreamState, end: int) -> None:
        plan = self._plan
        if plan.max_bytes is not None and end - self._position > plan.max_bytes:
            end = self._position + plan.max_bytes
            if state.is_json:
                end = self._live.engine.reads.boundary_within(state, self._position, end)
        at_the_end = state.closed and end == state.tail  # nobody polls again: no cursor
        extra = b"" if at_the_end else f"Stream-Cursor: {self._live.cursor(plan.cursor)}\r\n".encode()
        answer_range(self._live.engine, plan, reply, state, self._position, end, extra, cached=False)


Answer = tuple[int, bytes, bytes]


class Answers:
    """Whole answers, to be sent to many; the key says everything that they depend on."""

    def __init__(self) -> None:
        self._kept: dict[object, Answer] = {}
        self._bytes = 0

    def get(self, key: object) -> Answer | None:
        return self._kept.get(key)

    def keep(self, key: object, answer: Answer) -> None:
        length = len(answer[1]) + len(answer[2]) + KEY_BYTES_MAX
        if self._bytes + length > ANSWERS_BYTES_MAX:
            self._kept.clear()
            self._bytes = 0
        self._kept[key] = answer
        self._bytes += length


class Captured:
    """A reply that keeps a whole answer, to be sent to many."""

    on_writable: Callable[[], None] | None = None
    on_close: Callable[[], None] | None = None
    writable = True

    def __init__(self) -> None:
        self.answer: Answer | None = None

    def send(self, status: int, headers: bytes, body: bytes = b"") -> None:
        self.answer = (status, headers, body)

    def begin(self, status: int, headers: bytes, length: int | None) -> None:
        raise AssertionError("only short answers are shared")

    def write(self, data: bytes) -> None:
        raise AssertionError("only short answers are shared")

    end = abort = lambda self: None


class Subscriber:
    """One SSE response."""

    def __init__(
        self, live: Live, plan: ReadPlan, reply: Reply, entry: Entry, state: StreamState, position: int
    ) -> None:
        self._live, self._plan, self._reply, self._entry = live, plan, reply, entry
        self._incarnation, self._position = state.incarnation, position
        self._kind: Callable[[bytes], bytes] = sse.binary_event
        self._is_text = is_text(state.content_type) and not state.is_json
        if state.is_json:
            self._kind = sse.json_event
        elif self._is_text:
            self._kind = sse.data_event
        self._ended = False
        self._told = False
        # Beyond what the client echoed, and the same for all events: a cursor never goes back.
        self._cursor_min = 0 if plan.cursor is None else live.cursor(plan.cursor)

    def begin(self) -> None:
        state = self._entry.durable
        assert state is not None
        if self._plan.resumes and state.closed and self._position == state.tail:
            return self._reply.send(204, NO_STORE)  # tells a browser's EventSource to stop
        headers = COMMON + sse.SSE_HEADERS
        if self._kind is sse.binary_event:
            headers += sse.BASE64_HEADER
        live = self._live
        self._reply.on_writable = self.pump
        self._reply.on_close = self._leave
        self._entry = live.engine.watch(self._entry, self)
        live.readers[self] = None
        live.sse_closes.add(self)
        live.heartbeats.add(Heartbeat(live, self))
        if state.ttl_seconds is not None:
            live.touches.add(Touch(live, self))
        self._reply.begin(200, headers, None)
        self.pump()

    def wake(self, entry: Entry) -> None:
        self.pump()

    def pump(self) -> None:
        """Send what is there, as long as the client takes it."""
        while not self._ended and self._reply.writable:
            state = self._entry.durable
            if state is None or state.incarnation != self._incarnation or state.life is not Life.LIVE:
                return self.due()
            if self._told and self._position >= state.tail and not state.closed:
                return None
            try:
                sent = self._send_next(state)
            except FAILURES as failure:
                log.error("events are cut off: %s", failure)
                self._leave()
                return self._reply.abort()
            if not sent:
                return None

    def _send_next(self, state: StreamState) -> bool:
        start, tail = self._position, state.tail
        live_tail = self._told and tail - start <= PIECE_BYTES
        key = (start, tail, state.closed, self._cursor_min)
        if live_tail:
            shared = self._entry.gather_audience().shared.get(key)
            if shared is not None:
                end, events = shared
                self._write(events, end, state)
                return True
        goal = end = self._piece_end(state, start)
        payload = self._live.engine.reads.small(state, start, end)
        if self._is_text and payload:
            if not (state.closed and end == tail):
                payload = payload[: sse.whole_characters(payload)]
                end = start + len(payload)
            payload = sse.as_utf8(payload)
        if end == start and self._told and not (state.closed and end == tail):
            return False  # only half a character came
        closed = state.closed and end == tail
        # Half a character held back is not yet sent: but there is nothing more to send now.
        up_to_date = goal == tail
        cursor = max(self._cursor_min, current_cursor(self._live.clock.now_us()))
        events = self._kind(payload) if end > start else b""
        events += sse.control_event(offset_at(state, end), cursor, up_to_date, closed)
        if live_tail:
            kept = self._entry.gather_audience().shared
            if len(kept) < SHARED_PLACES_MAX:
                kept[key] = (end, events)
        self._write(events, end, state)
        return True

    def _write(self, events: bytes, end: int, state: StreamState) -> None:
        self._told = True
        self._position = end
        self._reply.write(events)
        if state.closed and end == state.tail:
            self._leave()
            self._reply.end()

    def _piece_end(self, state: StreamState, start: int) -> int:
        if state.tail - start <= PIECE_BYTES:
            return state.tail
        if state.is_json:
            return self._live.engine.reads.boundary_within(state, start, start + PIECE_BYTES)
        return start + PIECE_BYTES

    def beat(self) -> bool:
        if self._ended:
            return False
        if self._reply.writable:
            self._reply.write(sse.HEARTBEAT)
        return True

    def held(self) -> Entry | None:
        return None if self._ended else self._entry

    def due(self) -> None:
        """The connection's time is over (or its stream's): the client comes back if it wants to."""
        if not self._ended:
            self._leave()
            self._reply.end()

    def _leave(self) -> None:
        if not self._ended:
            self._ended = True
            self._reply.on_close = self._reply.on_writable = None
            self._live.engine.unwatch(self._entry, self)
            self._live.readers.pop(self, None)
            self._live.sse_closes.discard(self)


class Heartbeat:
    def __init__(self, live: Live, subscriber: Subscriber) -> None:
        self._live, self._subscriber = live, subscriber

    def due(self) -> None:
        if self._subscriber.beat():
            self._live.heartbeats.add(self)


class Touch:
    """A held read keeps a sliding window open."""

    def __init__(self, live: Live, reader: LongPoll | Subscriber) -> None:
        self._live, self._reader = live, reader

    def due(self) -> None:
        entry = self._reader.held()
        if entry is not None:
            self._live.engine.hold_alive(entry)
            self._live.touches.add(self)
