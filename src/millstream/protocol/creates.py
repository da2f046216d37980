"""What a PUT does: a new stream, an idempotent repetition, or a conflict (base protocol §5.1)."""

from __future__ import annotations

from msgspec import Struct

from .errors import Code, Refused
from .etags import state_etag, state_matches
from .facts import Created, Ends, ForkOrigin
from .media import DEFAULT_CONTENT_TYPE, essence
from .offsets import Token, parse_offset
from .positions import offset_at
from .state import Life, StreamState
from .times import SECOND_US

TTL_SLACK = 8  # a sliding window is journalled with an eighth on top (ARCHITECTURE §2)
TTL_RENEW = 16  # and anew when a touch comes within a sixteenth of what was journalled


class ForkRequest(Struct, frozen=True):
    source: str
    offset: Token | None
    offset_text: str | None
    sub_offset: int = 0


class CreateRequest(Struct, frozen=True):
    """The headers of a PUT, checked. `content_type` is None when there was none."""

    content_type: str | None = None
    ttl_seconds: int | None = None
    expires_at: str | None = None
    expires_at_us: int | None = None
    closed: bool = False
    fork: ForkRequest | None = None
    if_match: str | None = None


class CreateAnswer(Struct, frozen=True, gc=False):
    status: int
    content_type: str
    next_offset: str
    closed: bool
    etag: str


def check_against(state: StreamState | None, request: CreateRequest) -> CreateAnswer | None:
    """The answer where the path is taken; None where it is free."""
    exists = state is not None and state.life is Life.LIVE
    if request.if_match is not None and not (
        exists and state is not None and state_matches(request.if_match, state)
    ):
        headers = {"ETag": state_etag(state)} if exists and state is not None else {}
        raise Refused(Code.PRECONDITION_FAILED, headers=headers)
    if state is None or state.life is Life.REMOVED:
        return None
    if state.life is Life.ENDED:
        raise Refused(
            Code.STREAM_DELETED_WITH_FORKS, hint="The path is free again when its last fork is deleted."
        )
    difference = _difference(state, request)
    if difference:
        headers = {"ETag": state_etag(state)}
        if state.closed:
            headers["Stream-Closed"] = "true"
        raise Refused(Code.STREAM_EXISTS, f"The stream exists with another {difference}.", headers=headers)
    return answer_of(state, 200)


def answer_of(state: StreamState, status: int) -> CreateAnswer:
    return CreateAnswer(
        status, state.content_type, offset_at(state, state.tail), state.closed, state_etag(state)
    )


def _difference(state: StreamState, request: CreateRequest) -> str:
    fork, origin = request.fork, state.origin
    if fork is None:
        if origin is not None:
            return "origin (it is a fork)"
    elif (
        origin is None
        or origin.source != fork.source
        or _requested(origin) != fork.offset
        or origin.requested_sub_offset != fork.sub_offset
    ):
        return "origin"
    if request.content_type is not None or fork is None:
        if essence(request.content_type or DEFAULT_CONTENT_TYPE) != essence(state.content_type):
            return f"content type ({state.content_type})"
    asks_expiry = request.ttl_seconds is not None or request.expires_at_us is not None
    if fork is None or asks_expiry:
        if request.ttl_seconds != state.ttl_seconds:
            return "Stream-TTL"
        if request.expires_at_us != state.expires_at_us:
            return "Stream-Expires-At"
    return "" if request.closed == state.closed else "closure status"


def _requested(origin: ForkOrigin) -> Token | None:
    """The offset that was asked for, however it was written."""
    return None if origin.requested_offset is None else parse_offset(origin.requested_offset)


def window_deadline(ttl_seconds: int, now_us: int) -> int:
    window = ttl_seconds * SECOND_US
    return now_us + window + window // TTL_SLACK


def created_fact(
    request: CreateRequest,
    now_us: int,
    source: StreamState | None = None,
    origin: ForkOrigin | None = None,
    data: bytes = b"",
    ends: Ends = None,
    part_group: int = 0,
) -> Created:
    """What the request says wins; a fork takes the rest from its source."""
    content_type = request.content_type
    ttl, expires_at, expires_at_us = request.ttl_seconds, request.expires_at, request.expires_at_us
    if source is not None:
        content_type = content_type or source.content_type
        if ttl is None and expires_at_us is None:
            ttl, expires_at, expires_at_us = source.ttl_seconds, source.expires_at, source.expires_at_us
    deadline = expires_at_us if ttl is None else window_deadline(ttl, now_us)
    return Created(
        content_type or DEFAULT_CONTENT_TYPE,
        ttl,
        expires_at,
        expires_at_us,
        deadline,
        request.closed,
        origin,
        data,
        ends,
        part_group,
    )
