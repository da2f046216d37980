"""What a POST does to a stream: the rules of base protocol §§5.2, 5.2.1, 5.3, in their order.

    closed         409, but 204 to the exact closing tuple and to a plain close-only
    content type   409
    producer       400 epoch start, 403 stale, 204 duplicate, 409 gap
    If-Match       412
    Stream-Seq     409
    otherwise      the append

`decide` looks at the state and says what is to happen; it changes nothing.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from .errors import Code, Refused
from .etags import state_etag, state_matches
from .facts import ProducerTuple
from .media import essence
from .positions import offset_at
from .state import StreamState


class AppendRequest(Struct, frozen=True):
    """The headers of a POST, checked. `content_type` is the essence; "" when there was none."""

    content_type: str = ""
    producer: ProducerTuple | None = None
    stream_seq: str | None = None
    closes: bool = False
    if_match: str | None = None


class AppendAnswer(Struct, frozen=True, gc=False):
    """A success. `next_offset` is the end of *this* append."""

    status: int
    next_offset: str
    etag: str
    closed: bool
    producer: tuple[int, int] | None = None  # epoch, highest accepted seq


APPEND: Final = None  # `decide` says: go on, nothing stands against it


def decide(state: StreamState, request: AppendRequest, empty: bool) -> AppendAnswer | None:
    """The answer, if no fact is needed; None when the append is to be made. Refusals are raised."""
    producer = request.producer
    if state.closed:
        return _on_closed(state, request, empty)
    if not empty and request.content_type != essence(state.content_type):
        raise Refused(
            Code.CONTENT_TYPE_MISMATCH,
            f"The stream's content type is {state.content_type}.",
            headers=_conflict_headers(producer),
        )
    if producer is not None:
        duplicate = _check_producer(state, producer)
        if duplicate is not None:
            return duplicate
    if request.if_match is not None and not state_matches(request.if_match, state):
        raise Refused(
            Code.PRECONDITION_FAILED,
            headers={"ETag": state_etag(state), "Stream-Next-Offset": offset_at(state, state.tail)},
        )
    if request.stream_seq is not None and state.stream_seq is not None:
        if request.stream_seq.encode() <= state.stream_seq.encode():
            raise Refused(
                Code.STREAM_SEQ_REGRESSION,
                f"Stream-Seq '{request.stream_seq[:80]}' is not greater than '{state.stream_seq[:80]}'.",
                headers=_conflict_headers(producer),
            )
    return APPEND


def _on_closed(state: StreamState, request: AppendRequest, empty: bool) -> AppendAnswer:
    producer = request.producer
    if producer is None and request.closes and empty:
        return AppendAnswer(204, offset_at(state, state.tail), state_etag(state), True)
    if producer is not None and producer == state.closer:  # whether or not it asks to close again
        return AppendAnswer(
            204, offset_at(state, state.tail), state_etag(state), True, (producer.epoch, producer.seq)
        )
    headers = {
        "Stream-Closed": "true",
        "Stream-Next-Offset": offset_at(state, state.tail),
        "ETag": state_etag(state),
    }
    if producer is not None:
        headers |= _conflict_headers(producer)
        known = state.producer(producer.id)
        if known is not None:
            headers |= {"Producer-Epoch": str(known[0]), "Producer-Seq": str(known[1])}
    raise Refused(Code.STREAM_CLOSED, headers=headers)


def _conflict_headers(producer: ProducerTuple | None) -> dict[str, str]:
    """Amendments §6: a client that knows only gaps must not take this conflict for one."""
    if producer is None:
        return {}
    seq = str(producer.seq)
    return {"Producer-Expected-Seq": seq, "Producer-Received-Seq": seq}


def _check_producer(state: StreamState, producer: ProducerTuple) -> AppendAnswer | None:
    known = state.producer(producer.id)
    if known is None:
        if producer.seq != 0:
            raise _gap(producer, 0)
        return None
    epoch, last, end = known
    if producer.epoch < epoch:
        raise Refused(
            Code.STALE_EPOCH,
            f"Producer '{producer.id[:80]}' is at epoch {epoch}.",
            headers={"Producer-Epoch": str(epoch)},
            details={"current_epoch": epoch},
        )
    if producer.epoch > epoch:
        if producer.seq != 0:
            raise Refused(Code.PRODUCER_EPOCH_START, f"Epoch {producer.epoch} begins with sequence 0.")
        return None
    if producer.seq <= last:
        return AppendAnswer(204, offset_at(state, end), state_etag(state), False, (epoch, last))
    if producer.seq > last + 1:
        raise _gap(producer, last + 1)
    return None


def _gap(producer: ProducerTuple, expected: int) -> Refused:
    return Refused(
        Code.PRODUCER_GAP,
        f"Sequence {expected} was expected, {producer.seq} was received.",
        headers={"Producer-Expected-Seq": str(expected), "Producer-Received-Seq": str(producer.seq)},
        details={"expected_seq": expected, "received_seq": producer.seq},
    )


def answer_of(state: StreamState, request: AppendRequest, empty: bool) -> AppendAnswer:
    """The answer to an append that was made; `state` is as it was right after it."""
    next_offset, etag = offset_at(state, state.tail), state_etag(state)
    producer = request.producer
    if producer is None:
        return AppendAnswer(204, next_offset, etag, request.closes)
    return AppendAnswer(
        204 if empty else 200, next_offset, etag, request.closes, (producer.epoch, producer.seq)
    )


def check_body(request: AppendRequest, empty: bool) -> None:
    """What can be said about a POST without looking at the stream."""
    if empty and not request.closes:
        raise Refused(
            Code.EMPTY_BODY, hint="Send bytes, or Stream-Closed: true to close the stream without any."
        )
    if not empty and not request.content_type:
        raise Refused(Code.CONTENT_TYPE_REQUIRED, hint="Send the Content-Type that the stream was made with.")
