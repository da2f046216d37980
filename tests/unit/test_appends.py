"""What a POST does: the order of conflicts as a table (base protocol §§5.2–5.3, amendments §§4, 6)."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.protocol.appends import APPEND, AppendAnswer, AppendRequest, answer_of, check_body, decide
from millstream.protocol.errors import Refused
from millstream.protocol.etags import state_etag
from millstream.protocol.facts import ProducerTuple
from millstream.protocol.positions import offset_at
from millstream.protocol.state import StreamState

from .states import stream

STALE, GAP = ProducerTuple("p", 1, 0), ProducerTuple("p", 2, 9)
DUPLICATE, EPOCH_START, NEXT = ProducerTuple("p", 2, 5), ProducerTuple("p", 3, 1), ProducerTuple("p", 2, 6)


def known(**fields: Any) -> StreamState:
    return stream(producers={"p": (2, 5, 8)}, stream_seq="m", **fields)


def verdict(state: StreamState, request: AppendRequest, empty: bool = False) -> str:
    try:
        answer = decide(state, request, empty)
    except Refused as refusal:
        return refusal.code
    return "append" if answer is APPEND else f"{answer.status}"


# Every row has the conflict of its own line and all of those below it.
ORDER: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("stream_closed", {"closed": True}, {}),
    ("content_type_mismatch", {}, {"content_type": "a/b"}),
    ("stale_epoch", {}, {"producer": STALE}),
    ("producer_gap", {}, {"producer": GAP}),
    ("producer_epoch_start", {}, {"producer": EPOCH_START}),
    ("204", {}, {"producer": DUPLICATE}),
    ("precondition_failed", {}, {"if_match": '"x"'}),
    ("stream_seq_regression", {}, {"stream_seq": "m"}),
    ("append", {}, {}),
]


@pytest.mark.parametrize("row", range(len(ORDER)), ids=[name for name, _, _ in ORDER])
def test_conflicts_are_told_in_their_order(row: int) -> None:
    fields: dict[str, Any] = {}
    headers: dict[str, Any] = {"content_type": "text/plain", "producer": NEXT}
    for _, more_fields, more_headers in reversed(ORDER[row:]):
        fields |= more_fields
        headers |= more_headers
    assert verdict(known(**fields), AppendRequest(**headers)) == ORDER[row][0]


@pytest.mark.parametrize(
    ("producer", "expected"),
    [
        (ProducerTuple("new", 0, 0), "append"),
        (ProducerTuple("new", 7, 0), "append"),
        (ProducerTuple("new", 0, 1), "producer_gap"),
        (ProducerTuple("p", 2, 6), "append"),
        (ProducerTuple("p", 2, 7), "producer_gap"),
        (ProducerTuple("p", 2, 5), "204"),
        (ProducerTuple("p", 2, 0), "204"),
        (ProducerTuple("p", 3, 0), "append"),
        (ProducerTuple("p", 9, 0), "append"),
        (ProducerTuple("p", 3, 1), "producer_epoch_start"),
        (ProducerTuple("p", 1, 99), "stale_epoch"),
    ],
)
def test_producers(producer: ProducerTuple, expected: str) -> None:
    assert verdict(known(), AppendRequest("text/plain", producer)) == expected


def test_a_duplicate_names_the_highest_accepted_sequence_and_its_end() -> None:
    answer = decide(known(), AppendRequest("text/plain", ProducerTuple("p", 2, 1)), False)
    assert answer is not None
    assert (answer.producer, answer.next_offset) == ((2, 5), offset_at(known(), 8))


def test_a_speculative_copy_knows_the_producers_of_the_durable_one() -> None:
    ahead = known().ahead()
    assert verdict(ahead, AppendRequest("text/plain", ProducerTuple("p", 2, 5))) == "204"
    ahead.producers["p"] = (2, 6, 9)
    assert verdict(ahead, AppendRequest("text/plain", ProducerTuple("p", 2, 7))) == "append"


def test_every_409_and_403_to_a_producer_carries_what_its_client_needs() -> None:
    def headers(state: StreamState, request: AppendRequest) -> dict[str, str]:
        with pytest.raises(Refused) as refusal:
            decide(state, request, False)
        return dict(refusal.value.headers)

    both_received = {"Producer-Expected-Seq": "6", "Producer-Received-Seq": "6"}
    request = AppendRequest("text/plain", NEXT, "a")
    assert headers(known(), request) == both_received
    assert headers(known(), AppendRequest("a/b", NEXT)) == both_received
    assert headers(known(), AppendRequest("text/plain", GAP)) == {
        "Producer-Expected-Seq": "6",
        "Producer-Received-Seq": "9",
    }
    assert headers(known(), AppendRequest("text/plain", STALE)) == {"Producer-Epoch": "2"}
    closed = headers(known(closed=True), request)
    assert closed.items() >= (both_received | {"Producer-Epoch": "2", "Producer-Seq": "5"}).items()
    assert closed["Stream-Closed"] == "true" and "Stream-Next-Offset" in closed


@pytest.mark.parametrize(
    ("request_", "empty", "expected"),
    [
        (AppendRequest(closes=True), True, "204"),
        (AppendRequest("a/b", closes=True), True, "204"),
        (AppendRequest("text/plain", closes=True), False, "stream_closed"),
        (AppendRequest("text/plain"), False, "stream_closed"),
        (AppendRequest(producer=ProducerTuple("p", 2, 5), closes=True), True, "204"),
        (AppendRequest("text/plain", ProducerTuple("p", 2, 5), closes=True), False, "204"),
        (AppendRequest("text/plain", ProducerTuple("p", 2, 5)), False, "204"),
        (AppendRequest(producer=ProducerTuple("p", 2, 4), closes=True), True, "stream_closed"),
        (AppendRequest(producer=ProducerTuple("q", 2, 5), closes=True), True, "stream_closed"),
    ],
)
def test_a_closed_stream(request_: AppendRequest, empty: bool, expected: str) -> None:
    state = known(closed=True, closer=ProducerTuple("p", 2, 5))
    assert verdict(state, request_, empty) == expected


@pytest.mark.parametrize(("sent", "expected"), [("n", "append"), ("m", "stream_seq_regression"),
                                                ("M", "stream_seq_regression"), ("mm", "append"),
                                                ("é", "append"), ("", "stream_seq_regression")])  # fmt: skip
def test_stream_seq_is_compared_byte_by_byte(sent: str, expected: str) -> None:
    assert verdict(known(), AppendRequest("text/plain", stream_seq=sent)) == expected


def test_close_only_ignores_the_content_type() -> None:
    assert verdict(known(), AppendRequest("a/b", closes=True), empty=True) == "append"


def test_if_match_takes_the_current_etag() -> None:
    state = known()
    assert verdict(state, AppendRequest("text/plain", if_match=state_etag(state))) == "append"


@pytest.mark.parametrize(
    ("producer", "empty", "status"),
    [(None, False, 204), (None, True, 204), (NEXT, False, 200), (NEXT, True, 204)],
)
def test_the_status_of_an_append_that_was_made(
    producer: ProducerTuple | None, empty: bool, status: int
) -> None:
    answer = answer_of(known(), AppendRequest("text/plain", producer, closes=True), empty)
    expected = None if producer is None else (2, 6)
    assert answer == AppendAnswer(status, offset_at(known(), 10), state_etag(known()), True, expected)


def test_an_append_needs_bytes_and_their_type_unless_it_closes() -> None:
    check_body(AppendRequest(closes=True), True)
    check_body(AppendRequest("a/b"), False)
    for request, empty, code in [(AppendRequest("a/b"), True, "empty_body"),
                                 (AppendRequest(), False, "content_type_required")]:  # fmt: skip
        with pytest.raises(Refused) as refusal:
            check_body(request, empty)
        assert refusal.value.code == code
