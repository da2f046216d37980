"""Content types, instants, cursors, ETags."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.cursors import CURSOR_EPOCH_US, CURSOR_INTERVAL_US, current_cursor, next_cursor
from millstream.protocol.errors import Refused
from millstream.protocol.etags import none_match, range_etag, state_etag, state_matches
from millstream.protocol.media import check_content_type, essence, is_json, is_text
from millstream.protocol.times import parse_rfc3339_us

from .states import INCARNATION, stream


@pytest.mark.parametrize(
    "value", ["text/plain", "application/json; charset=utf-8", "a/b;c", "X+y/z.w", "a/b ;c"]
)
def test_a_media_type_is_kept_as_it_came(value: str) -> None:
    assert check_content_type(f" {value}\t") == value


@pytest.mark.parametrize(
    "value", ["", "text", "text/", "/plain", "a b/c", "text/plain\r\nX: y", "a/b,c/d", "a/é"]
)
def test_no_media_type(value: str) -> None:
    with pytest.raises(Refused) as refusal:
        check_content_type(value)
    assert refusal.value.code == "invalid_content_type"


def test_content_types_compare_without_case_and_parameters() -> None:
    assert essence("Application/JSON ; charset=UTF-8") == essence("application/json")
    assert is_json("Application/Json;v=1") and not is_json("application/json-seq")
    assert is_text("text/html; x=y") and is_text("application/json") and not is_text("application/textual")


@given(
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)), st.sampled_from(["Z", "z", "+00:00", "-00:00"])
)
def test_instants_are_read_to_the_microsecond(moment: datetime, zone: str) -> None:
    elapsed = moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    expected = (elapsed.days * 86400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds
    text = moment.isoformat(timespec="microseconds")
    assert parse_rfc3339_us(text + zone) == expected
    assert parse_rfc3339_us(text.replace("T", "t") + "+01:30") == expected - 5400 * 1_000_000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01Z", 1),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:00:00-01:00", 0),
        ("1970-01-01T00:00:00.5Z", 0.5),
        ("1970-01-01T00:00:00.123456789Z", 0.123456),
        ("1970-01-01T00:00:00.000000999999999999Z", 0),
        ("2016-12-31T23:59:60Z", 1483228800),
        ("2017-01-01T00:59:60+01:00", 1483228800),
    ],
)
def test_instants_are_compared_as_instants(text: str, seconds: float) -> None:
    assert parse_rfc3339_us(text) == round(seconds * 1_000_000)


@pytest.mark.parametrize(
    "text",
    ["", "2030-01-01", "2030-01-01T00:00:00", "2030-01-01 00:00:00Z", "2030-13-01T00:00:00Z", "1893456000",
     "2030-02-30T00:00:00Z", "2030-01-01T24:00:00Z", "2030-01-01T00:60:00Z", "2030-01-01T00:00:61Z",
     "2030-01-01T00:00:00+0100", "2030-01-01T00:00:00+24:00", "2030-01-01T00:00:00.Z", "30-01-01T00:00:00Z",
     "2030-06-15T12:34:60Z", "2030-12-31T23:59:60+01:00", "2030-01-01T00:00:00." + "1" * 60 + "Z",
     "2030-01-01T00:00:00Z ", "2030-01-01T00:00:00Z\n", "２０３０-01-01T00:00:00Z", "0000-01-01T00:00:00Z"],
)  # fmt: skip
def test_no_instant(text: str) -> None:
    assert parse_rfc3339_us(text) is None


@given(st.integers(0, 10**9), st.integers(1, 3600))
def test_a_cursor_is_always_beyond_what_was_echoed_and_never_before_now(echoed: int, jitter: int) -> None:
    now = CURSOR_EPOCH_US + 500 * CURSOR_INTERVAL_US
    sent = next_cursor(now, str(echoed), jitter)
    assert sent >= current_cursor(now) == 500
    assert sent > echoed or (echoed < 500 and sent == 500)


@pytest.mark.parametrize("echoed", [None, "", "abc", "-1", "٣", "9" * 1001, "1.5"])
def test_a_cursor_that_is_not_ours_is_ignored(echoed: str | None) -> None:
    assert next_cursor(CURSOR_EPOCH_US + CURSOR_INTERVAL_US * 3, echoed, 1) == 3


def test_state_etags_vary_on_tail_closure_and_incarnation() -> None:
    states = [stream(), stream(tail=11), stream(closed=True), stream(incarnation=INCARNATION + 1)]
    assert len({state_etag(state) for state in states}) == 4


def test_range_etags_vary_on_everything_that_a_body_depends_on() -> None:
    state = stream()
    ranges = [(0, 5, False, False), (0, 6, False, False), (1, 5, False, False), (0, 5, True, False),
              (0, 5, False, True)]  # fmt: skip
    assert len({range_etag(state, *each) for each in ranges} | {state_etag(state)}) == 6


def test_if_none_match_compares_weakly_in_lists() -> None:
    etag = state_etag(stream())
    for header in ("*", etag, f"W/{etag}", f'"x", {etag}', f'"a,b" ,W/{etag}', f" {etag} "):
        assert none_match(header, etag), header
    for header in ("", '"x"', etag.strip('"'), f'"{etag.strip(chr(34))}x"'):
        assert not none_match(header, etag), header


def test_if_match_takes_the_state_or_a_read_that_ended_at_it() -> None:
    state = stream(tail=10)
    taken = ["*", state_etag(state), f'"x", {state_etag(state)}', range_etag(state, 3, 10, False, False),
             range_etag(state, 0, 10, False, True)]  # fmt: skip
    refused = ["", '"x"', f"W/{state_etag(state)}", range_etag(state, 0, 9, False, False),
               range_etag(state, 0, 10, True, False), state_etag(stream(tail=9))]  # fmt: skip
    assert all(state_matches(header, state) for header in taken)
    assert not any(state_matches(header, state) for header in refused)
