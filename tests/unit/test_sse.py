"""Server-Sent Events: what a parser makes of them is what was stored (base protocol §5.8)."""

from __future__ import annotations

import json
from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol.sse import (
    HEARTBEAT,
    as_utf8,
    binary_event,
    control_event,
    data_event,
    json_event,
    whole_characters,
)


def parse(stream: bytes) -> list[tuple[str, str, str]]:
    """By the letter of the HTML standard: (type, data, last event id) per event."""
    events: list[tuple[str, str, str]] = []
    data: list[str] = []
    kind = last_id = ""
    text = stream.decode("utf-8")
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if not line:
            if data:
                events.append((kind or "message", "\n".join(data), last_id))
            kind, data = "", []
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                kind = value
            elif name == "data":
                data.append(value)
            elif name == "id":
                last_id = value
    return events


TEXTS = st.text(st.sampled_from("ab :\r\n\té😀"), max_size=20)


@given(TEXTS)
def test_text_of_any_kind_survives_but_for_the_kind_of_its_line_ends(text: str) -> None:
    expected = text.replace("\r\n", "\n").replace("\r", "\n")
    assert parse(data_event(text.encode())) == [("data", expected, "")]


@pytest.mark.parametrize(
    "payload", [b" x", b"  x", b"a\n b", b" \n ", b"\r\r\n\n", b"data: x", b"\nevent: control"]
)
def test_text_that_looks_like_the_format_is_text(payload: bytes) -> None:
    assert len(parse(data_event(payload))) == 1


def test_there_is_no_space_behind_data_and_one_behind_event() -> None:
    assert data_event(b"x") == b"event: data\ndata:x\n\n"
    assert data_event(b" x") == b"event: data\ndata:  x\n\n"


def test_stored_json_becomes_an_array() -> None:
    ((_, data, _),) = parse(json_event(b'{"a":\n1},2,'))
    assert json.loads(data) == [{"a": 1}, 2]


@given(st.binary(max_size=50))
def test_bytes_travel_as_base64(payload: bytes) -> None:
    ((kind, data, _),) = parse(binary_event(payload))
    assert kind == "data" and b64decode(data) == payload


@pytest.mark.parametrize(
    ("up_to_date", "closed", "keys"),
    [
        (False, False, {"streamNextOffset", "streamCursor"}),
        (True, False, {"streamNextOffset", "streamCursor", "upToDate"}),
        (True, True, {"streamNextOffset", "upToDate", "streamClosed"}),
        (False, True, {"streamNextOffset", "upToDate", "streamClosed"}),
    ],
)
def test_control_events_say_only_what_is_true(up_to_date: bool, closed: bool, keys: set[str]) -> None:
    event = control_event("7-9", 42, up_to_date, closed)
    assert event.startswith(b"event: control\n")
    ((_, data, last_id),) = parse(event)
    fields = json.loads(data)
    assert set(fields) == keys and fields["streamNextOffset"] == last_id == "7-9"
    assert fields.get("streamCursor", "42") == "42"


def test_a_heartbeat_is_no_event() -> None:
    assert parse(HEARTBEAT) == []


@given(st.text(max_size=12), st.integers(0, 48))
def test_only_whole_characters_are_sent(text: str, at: int) -> None:
    piece = text.encode("utf-8", "replace")[:at]
    whole = whole_characters(piece)
    assert len(piece) - 3 <= whole <= len(piece)
    assert piece[:whole].decode() == piece.decode("utf-8", "ignore")


@given(st.lists(st.integers(0, 6), max_size=20), st.text(st.sampled_from("aé€😀"), max_size=12))
def test_characters_split_over_any_appends_arrive_whole(cuts: list[int], text: str) -> None:
    data, held, sent = text.encode(), b"", ""
    for size in [*cuts, len(data)]:
        held, data = held + data[:size], data[size:]
        whole = whole_characters(held)
        sent += held[:whole].decode()
        held = held[whole:]
    assert sent == text and held == b""


@given(st.binary(max_size=12))
def test_bytes_that_are_no_text_are_not_held_back_for_ever(data: bytes) -> None:
    assert len(data) - whole_characters(data) <= 3
    assert whole_characters(data + b"ascii") == len(data) + 5


@given(st.binary(max_size=20))
def test_an_event_stream_is_utf_8(data: bytes) -> None:
    as_utf8(data).decode()
    assert as_utf8("né".encode()) == "né".encode()
