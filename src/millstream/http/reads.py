"""GET without `live`: everything from an offset to the tail, in one response (amendments §6).

The length is known before the first byte: stored bytes are wire bytes. JSON is `[`, the slice
without its last comma, `]`. NDJSON is the same bytes with each message's comma as a line feed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from functools import partial

from millstream.engine import PIECE_BYTES, Engine, Entry
from millstream.protocol.errors import Code, MillstreamError, Refused
from millstream.protocol.etags import none_match, range_etag
from millstream.protocol.media import JSON
from millstream.protocol.offsets import BEGINNING, Beginning, Now, Token, parse_offset
from millstream.protocol.positions import not_at_boundary, offset_at, resolve
from millstream.protocol.state import StreamState

from .failures import FAILURES, send_error, send_failure
from .fields import MAX_BYTES_DIGITS
from .reply import COMMON, Reply
from .request import Head

log = logging.getLogger("millstream.http")

NDJSON = "application/x-ndjson"
_WEIGHT = re.compile(r"(?:^|;)[ \t]*q=([01](?:\.[0-9]{0,3})?)")
_NO_NEWLINES = bytes.maketrans(b"\r\n", b"  ")
_CACHED = b"Cache-Control: public, max-age=60, stale-while-revalidate=300\r\n"
_NOT_CACHED = b"Cache-Control: no-store\r\n"


class ReadPlan:
    """What a GET's head says."""

    __slots__ = ("cursor", "if_none_match", "key", "live", "max_bytes", "ndjson", "resumes", "token")

    def __init__(self, head: Head, key: str) -> None:
        parameters = head.parameters()
        self.key = key
        self.live = parameters.get("live")
        if self.live not in (None, "long-poll", "sse"):
            raise Refused(
                Code.INVALID_PARAMETER, f"live='{self.live[:40]}' is unknown.", hint="Use long-poll or sse."
            )
        offset = parameters.get("offset")
        self.cursor = parameters.get("cursor")
        last_event = head.headers.get("last-event-id") if self.live == "sse" else None
        self.resumes = bool(last_event)
        if last_event:
            offset = last_event
        if offset is None and (self.live is not None or self.cursor is not None):
            raise Refused(
                Code.INVALID_PARAMETER,
                "This read needs an offset.",
                hint="Send offset=-1, offset=now, or the last Stream-Next-Offset.",
            )
        self.token: Token = parse_offset(BEGINNING if offset is None else offset)
        self.max_bytes = _max_bytes(parameters.get("max_bytes"))
        self.if_none_match = head.headers.get("if-none-match")
        self.ndjson = wants_ndjson(head.headers.get("accept", ""))


def wants_ndjson(accept: str) -> bool:
    """Whether it is asked for, and not less than JSON."""
    if NDJSON not in accept.lower():
        return False
    weights = {JSON: 0.0, NDJSON: 0.0}
    for part in accept.lower().split(","):
        kind, _, parameters = part.partition(";")
        weight = _WEIGHT.search(parameters)
        weights[kind.strip()] = float(weight[1]) if weight else 1.0
    return weights[NDJSON] > 0 and weights[NDJSON] >= weights[JSON]


def _max_bytes(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > MAX_BYTES_DIGITS or int(text) < 1:
        raise Refused(Code.INVALID_PARAMETER, f"max_bytes is a whole number from 1, not '{text[:40]}'.")
    return int(text)


def starting_position(engine: Engine, state: StreamState, token: Token) -> int:
    """Where a read begins; refused when the offset is none of this stream's."""
    position = resolve(state, token)
    if state.is_json and token is not Beginning and not engine.reads.is_boundary(state, position):
        raise not_at_boundary(position)
    return position


def read(engine: Engine, plan: ReadPlan, reply: Reply) -> None:
    engine.look(plan.key, partial(_read, engine, plan, reply), touches=True)


def _read(engine: Engine, plan: ReadPlan, reply: Reply, found: Entry | MillstreamError) -> None:
    if isinstance(found, MillstreamError):
        return send_error(reply, found)
    state = found.durable
    assert state is not None
    try:
        start = starting_position(engine, state, plan.token)
        end = state.tail
        if plan.max_bytes is not None and end - start > plan.max_bytes:
            end = start + plan.max_bytes
            if state.is_json:
                end = engine.reads.boundary_within(state, start, end)
    except FAILURES as failure:
        return send_failure(reply, failure)
    answer_range(engine, plan, reply, state, start, end)


def answer_range(
    engine: Engine,
    plan: ReadPlan,
    reply: Reply,
    state: StreamState,
    start: int,
    end: int,
    extra: bytes = b"",
    cached: bool = True,
) -> None:
    """A 200 with the stream's bytes from `start` to `end`, or the 304 in its place."""
    at_tail = end == state.tail
    closed = state.closed and at_tail
    ndjson = plan.ndjson and state.is_json
    is_now = plan.token is Now and not plan.live
    headers = [COMMON, _NOT_CACHED if is_now or not cached else _CACHED]
    content_type = NDJSON if ndjson else state.content_type
    text = f"Content-Type: {content_type}\r\nStream-Next-Offset: {offset_at(state, end)}\r\n"
    if at_tail:
        text += "Stream-Up-To-Date: true\r\n"
    if closed:
        text += "Stream-Closed: true\r\n"
    if state.is_json:
        text += "Vary: Accept\r\n"
    headers.append(text.encode("latin-1"))
    if not is_now:
        etag = range_etag(state, start, end, closed, ndjson)
        headers.append(f"ETag: {etag}\r\n".encode())
        if plan.if_none_match is not None and cached and none_match(plan.if_none_match, etag):
            return reply.send(304, b"".join(headers) + extra)
    block = b"".join(headers) + extra
    wrap = state.is_json and not ndjson
    if end - start <= PIECE_BYTES:
        try:
            data = engine.reads.small(state, start, end)
        except FAILURES as failure:
            return send_failure(reply, failure)
        if ndjson:
            data = b"".join(_as_lines(engine, state, start, end))
        elif wrap:
            data = b"[" + data[:-1] + b"]"
        return reply.send(200, block, data)
    length = end - start + (1 if wrap else 0)
    pieces = _as_lines(engine, state, start, end) if ndjson else engine.reads.pieces(state, start, end)
    reply.begin(200, block, length)
    Sender(reply, _as_array(pieces) if wrap else pieces).go()


def _as_array(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """`[`, everything but the last comma, `]`: the last piece is known when there is no next one."""
    before = b"["
    held = b""
    for piece in pieces:
        if held:
            yield before + held if before else held
            before = b""
        held = piece
    yield before + held[:-1] + b"]"


def _as_lines(engine: Engine, state: StreamState, start: int, end: int) -> Iterator[bytes]:
    """One message per line; a raw line break inside a message can only be space, so it becomes one."""
    while start < end:
        at, data, ends = engine.reads.chunk(state, start)
        lines = bytearray(data.translate(_NO_NEWLINES))
        for inner in (len(data),) if ends is None else ends:
            lines[inner - 1] = 0x0A
        yield bytes(lines[start - at : end - at])
        start = at + len(data)


class Sender:
    """Writes a long answer as fast as the client takes it."""

    def __init__(self, reply: Reply, pieces: Iterator[bytes]) -> None:
        self._reply, self._pieces = reply, pieces
        reply.on_writable = self.go
        self._next: Callable[[], bytes | None] = partial(next, pieces, None)

    def go(self) -> None:
        reply = self._reply
        while reply.writable:
            try:
                piece = self._next()
            except FAILURES as failure:
                log.error("a response is cut off: %s", failure)
                reply.on_writable = None
                return reply.abort()
            if piece is None:
                reply.on_writable = None
                return reply.end()
            reply.write(piece)
