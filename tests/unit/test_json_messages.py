"""JSON mode: any body becomes its messages, byte for byte, or is refused (base protocol §7.1)."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.protocol import json_messages
from millstream.protocol.errors import Refused
from millstream.protocol.json_messages import flatten, flatten_in_slices

TEXTS = st.text(max_size=6) | st.sampled_from(['"', "\\", '\\"', "[", "]}", ",", "\ud83d", "😀", "é", '",["'])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)
SPACES = st.text(" \t\r\n", max_size=3)


def dumps(value: Any, escape: bool, space: str) -> str:
    ascii_only = escape or "\ud83d" in json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=ascii_only, separators=("," + space, space + ":"))


def messages(stored: bytes, ends: Any, count: int) -> list[bytes]:
    """Each message without its comma."""
    if not count:
        assert stored == b""
        return []
    cuts = [0, *(ends if ends is not None else [len(stored)])]
    assert cuts[-1] == len(stored) and len(cuts) == count + 1
    pieces = [stored[a:b] for a, b in pairwise(cuts)]
    assert all(piece.endswith(b",") for piece in pieces)
    return [piece[:-1] for piece in pieces]


def sliced(body: bytes, messages_max: int = 250_000) -> Any:
    steps = flatten_in_slices(body, messages_max)
    while True:
        try:
            next(steps)
        except StopIteration as finished:
            return finished.value


@given(st.lists(VALUES, max_size=6), st.booleans(), SPACES)
def test_an_array_becomes_its_elements(values: list[Any], escape: bool, space: str) -> None:
    body = (space + dumps(values, escape, space) + space).encode()
    stored, ends, count = flatten(body)
    found = messages(stored, ends, count)
    assert count == len(values)
    assert [json.loads(message) for message in found] == values
    assert all(message in body and message == message.strip() for message in found)


@given(VALUES.filter(lambda value: not isinstance(value, list)), st.booleans(), SPACES)
def test_anything_else_is_one_message_kept_byte_for_byte(value: Any, escape: bool, space: str) -> None:
    text = dumps(value, escape, space).encode()
    assert flatten(space.encode() + text + space.encode()) == (text + b",", None, 1)


@given(st.lists(VALUES, max_size=8), st.booleans(), SPACES, st.integers(1, 40))
def test_slices_give_what_one_go_gives(values: list[Any], escape: bool, space: str, size: int) -> None:
    body = (space + dumps(values, escape, space) + space).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_messages, "SLICE_BYTES", size)
        patch.setattr(json_messages, "_WALK_TOKENS_MAX", 3)
        stored, ends, count = sliced(body)
    whole = flatten(body)
    assert messages(stored, ends, count) == messages(*whole)


INVALID = [
    b"", b" ", b"[", b"]", b"[1,]", b"[,1]", b"[1,,2]", b"[1 2]", b"1 2", b"[1] 2", b"[1]]", b"{",
    b'{"a":1,}', b"{a:1}", b'{"a" 1}', b"{1:2}", b"'a'", b'"a', b'"\x01"', b'"\t"', b'"\\x"', b'"\\u12"',
    b'"\\u00g0"', b"01", b"-", b"-01", b"1.", b".5", b"1e", b"+1", b"0x1", b"NaN", b"Infinity",
    b"-Infinity", b"tru", b"nulll", b"[1}", b"\xef\xbb\xbf1", b"\x0b1", b"[1],[2]", b"/**/1", b'["a" "b"]',
    b'"\\ud83d', b'["\\ud83d",]', b'["\\ud83d" 1]',
]  # fmt: skip


@pytest.mark.parametrize("body", INVALID)
def test_what_is_no_json_is_refused_in_one_go_and_in_slices(body: bytes) -> None:
    for attempt in (flatten, sliced):
        with pytest.raises(Refused) as refusal:
            attempt(body)
        assert refusal.value.code == "invalid_json"


@pytest.mark.parametrize("body", INVALID)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_small_slices_refuse_the_same(body: bytes, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_messages, "SLICE_BYTES", size)
    with pytest.raises(Refused) as refusal:
        sliced(body)
    assert refusal.value.code == "invalid_json"


@pytest.mark.parametrize("body", [b"\xff", b'"\xed\xa0\xbd"', b'["\xc3"]', b'"\xc0\x80"', b'["a\xe2\x82"]'])
def test_what_is_no_utf_8_is_refused(body: bytes) -> None:
    for attempt in (flatten, sliced):
        with pytest.raises(Refused) as refusal:
            attempt(body)
        assert refusal.value.code == "invalid_json" and "UTF-8" in refusal.value.message


@pytest.mark.parametrize(
    "text", [r'"\ud83d"', r'"\ude00\ud83d"', r'{"\ud83d":1}', r'"\\\ud83d"', r'"\\ud83d"', r'"\uD83D\uDE00"']
)
def test_lone_surrogates_are_kept_byte_for_byte(text: str) -> None:
    message = text.encode()
    assert flatten(message) == (message + b",", None, 1)
    stored, ends, count = flatten(b"[1, " + message + b" ," + message + b"]")
    assert messages(stored, ends, count) == [b"1", message, message]


@pytest.mark.parametrize(
    "number", [b"1.0", b"1.00", b"1E5", b"-0", b"1e400", b"12345678901234567890123", b"0.1e-7"]
)
def test_numbers_are_kept_byte_for_byte(number: bytes) -> None:
    assert flatten(number)[0] == number + b","
    assert flatten(b"[" + number + b"]")[0] == number + b","


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_depth_of_200_is_taken_and_100_000_is_refused_and_crashes_nothing(
    opening: bytes, closing: bytes
) -> None:
    deep = opening * 200 + b"1" + closing * 200
    assert flatten(b"[1," + deep + b"]")[2] == 2
    for attempt in (flatten, sliced):
        with pytest.raises(Refused):
            attempt(opening * 100_000 + b"1" + closing * 100_000)


def test_an_array_has_at_most_so_many_elements() -> None:
    assert flatten(b"[1,2,3]", 3)[2] == 3
    for attempt in (flatten, sliced):
        with pytest.raises(Refused) as refusal:
            attempt(b"[1,2,3,4]", 3)
        assert (refusal.value.code, refusal.value.status) == ("too_many_messages", 413)


def test_an_inner_array_is_one_message() -> None:
    assert flatten(b"[[1,2],[]]")[2] == 2
    assert flatten(b"[]") == sliced(b" [ ] ") == (b"", None, 0)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("end", [b'",2]', b'"]', b"]"])
def test_long_strings_full_of_escaped_quotes_take_no_longer_than_others(end: bytes) -> None:
    body = b'[1,"' + b'\\"' * 500_000 + end
    if end == b"]":
        with pytest.raises(Refused):
            sliced(body)
    else:
        assert messages(*sliced(body)) == messages(*flatten(body))
