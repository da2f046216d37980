"""What a PUT does: new, the same again, or a conflict (base protocol §5.1, amendments §2)."""

from __future__ import annotations

import pytest

from millstream.protocol.creates import (
    CreateRequest,
    ForkRequest,
    check_against,
    created_fact,
    window_deadline,
)
from millstream.protocol.errors import Refused
from millstream.protocol.etags import state_etag
from millstream.protocol.facts import ForkOrigin
from millstream.protocol.offsets import parse_offset
from millstream.protocol.state import Life, StreamState, create

from .states import stream

SECOND_US = 1_000_000
FORK = ForkRequest("a/root", parse_offset("5"), "5", 2)
ORIGIN = ForkOrigin("a/root", 3, (("a/root", 3, 7),), "5", 2, "hold")


def verdict(state: StreamState | None, request: CreateRequest) -> str:
    try:
        answer = check_against(state, request)
    except Refused as refusal:
        return refusal.code
    return "free" if answer is None else f"{answer.status}"


PLAIN = CreateRequest("text/plain")
FORKED = CreateRequest(fork=FORK)


@pytest.mark.parametrize(
    ("state", "request_", "expected"),
    [
        (None, PLAIN, "free"),
        (stream(life=Life.REMOVED), PLAIN, "free"),
        (stream(life=Life.ENDED), PLAIN, "stream_deleted_with_forks"),
        (stream(), PLAIN, "200"),
        (stream(), CreateRequest("Text/Plain; charset=utf-8"), "200"),
        (stream(), CreateRequest(), "stream_exists"),
        (stream(content_type="application/octet-stream"), CreateRequest(), "200"),
        (stream(), CreateRequest("text/html"), "stream_exists"),
        (stream(ttl_seconds=5), PLAIN, "stream_exists"),
        (stream(ttl_seconds=5), CreateRequest("text/plain", 5), "200"),
        (stream(ttl_seconds=5), CreateRequest("text/plain", 6), "stream_exists"),
        (stream(expires_at_us=9), CreateRequest("text/plain", None, "other text, same instant", 9), "200"),
        (stream(expires_at_us=9), CreateRequest("text/plain", None, "x", 8), "stream_exists"),
        (stream(closed=True), PLAIN, "stream_exists"),
        (stream(closed=True), CreateRequest("text/plain", closed=True), "200"),
        (stream(), CreateRequest("text/plain", closed=True), "stream_exists"),
        (stream(), FORKED, "stream_exists"),
        (stream(origin=ORIGIN), PLAIN, "stream_exists"),
        (stream(origin=ORIGIN), FORKED, "200"),
        (stream(origin=ORIGIN, ttl_seconds=60), FORKED, "200"),
        (stream(origin=ORIGIN), CreateRequest(fork=ForkRequest("a/b", FORK.offset, "5", 2)), "stream_exists"),
        (stream(origin=ORIGIN), CreateRequest(fork=ForkRequest("a/root", None, None, 2)), "stream_exists"),
        (stream(origin=ORIGIN), CreateRequest(fork=ForkRequest("a/root", FORK.offset, "5")), "stream_exists"),
        (None, CreateRequest("text/plain", if_match="*"), "precondition_failed"),
        (stream(), CreateRequest("text/plain", if_match="*"), "200"),
        (stream(), CreateRequest("text/plain", if_match='"x"'), "precondition_failed"),
        (stream(), CreateRequest("text/plain", if_match=state_etag(stream())), "200"),
        (stream(life=Life.ENDED), CreateRequest("text/plain", if_match="*"), "precondition_failed"),
    ],
)
def test_a_path_is_free_taken_by_the_same_or_taken_by_another(
    state: StreamState | None, request_: CreateRequest, expected: str
) -> None:
    assert verdict(state, request_) == expected


def test_a_conflict_on_a_closed_stream_says_that_it_is_closed() -> None:
    with pytest.raises(Refused) as refusal:
        check_against(stream(closed=True), PLAIN)
    assert refusal.value.headers["Stream-Closed"] == "true"


def test_a_window_is_journalled_with_an_eighth_on_top() -> None:
    assert window_deadline(80, 1000) == 1000 + 90 * SECOND_US
    assert created_fact(CreateRequest("a/b", 80), 1000).deadline_us == 1000 + 90 * SECOND_US
    assert created_fact(CreateRequest("a/b", None, "x", 77), 1000).deadline_us == 77
    assert created_fact(CreateRequest("a/b"), 1000).deadline_us is None


def test_a_fork_takes_from_its_source_what_the_request_leaves_open() -> None:
    source = stream(ttl_seconds=80, closed=True, producers={"p": (0, 0, 1)}, stream_seq="x")
    fact = created_fact(FORKED, 1000, source, ORIGIN)
    assert (fact.content_type, fact.ttl_seconds, fact.closed) == ("text/plain", 80, False)
    assert fact.deadline_us == 1000 + 90 * SECOND_US, "its own window"
    fork = create("test/f", 9, fact, 0, 1000)
    assert (fork.tail, fork.producers, fork.stream_seq) == (7, {}, None)
    own = created_fact(CreateRequest(fork=FORK, expires_at="x", expires_at_us=5), 1000, source, ORIGIN)
    assert (own.ttl_seconds, own.expires_at_us) == (None, 5)


def test_the_default_content_type_is_bytes() -> None:
    assert created_fact(CreateRequest(), 0).content_type == "application/octet-stream"
