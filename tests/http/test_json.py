"""JSON streams: RFC 8259, every message kept byte for byte, nothing that takes the server down."""

from __future__ import annotations

import json
import time

import pytest

from tests.http.wire import Client, encode

JSON = "application/json"

KEPT = {
    "a_lone_high_surrogate": rb'"\ud83d"',
    "a_lone_low_surrogate": rb'"\udc00 text"',
    "a_surrogate_in_a_key": rb'{"\uD83D":1}',
    "a_whole_pair": rb'"\ud83d\ude00"',
    "an_escaped_backslash_before_u": rb'"\\ud83d"',
    "a_number_with_many_digits": b"123456789012345678901234567890.10",
    "exponents": b"1E+2",
    "minus_zero": b"-0",
    "a_float_beyond_doubles": b"1e999",
    "escapes_that_need_none": rb'"\u0041\/"',
    "duplicate_keys": b'{"a":1,"a":2}',
    "inner_space": b'{ "a" :\t[ 1 , 2 ] }',
    "utf_8": '"ä😀\u2028"'.encode(),
    "an_escaped_nul": rb'"\u0000"',
    "a_string_of_brackets": b'"[],{}\\""',
    "null": b"null",
    "true": b"true",
    "an_empty_object": b"{}",
    "an_empty_string": b'""',
}


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("form", [b"%b", b" %b\r\n", b"[%b]", b"[1,\n%b ,2]", b'["\\ud83d",%b]'])
def test_a_message_is_kept_byte_for_byte(native: Client, stream: str, name: str, form: bytes) -> None:
    native.made(stream, JSON)
    native.added(stream, form % KEPT[name], JSON)
    before, after = (b'["\\ud83d",' if b"ud83d" in form else b"[1," if b"1," in form else b"["), b"]"
    after = b",2]" if b",2" in form else after
    assert native.get(stream).body == before + KEPT[name] + after


def test_one_level_of_an_array_is_flattened(client: Client, stream: str) -> None:
    client.made(stream, JSON, "[[1],2]")
    client.added(stream, "[[3,4],[]]", JSON)
    client.added(stream, "{}", JSON)
    assert client.get(stream).body == b"[[1],2,[3,4],[],{}]"


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_two_hundred_levels_are_taken(client: Client, stream: str, opening: str, closing: str) -> None:
    client.made(stream, JSON)
    message = opening * 200 + "1" + closing * 200
    client.added(stream, f"[{message}]", JSON)
    client.added(stream, f'["\\ud83d",{message}]', JSON)
    assert client.get(stream).body == f'[{message},"\\ud83d",{message}]'.encode()


@pytest.mark.parametrize("levels", [5_000, 1_000_000])
@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":', '["\\ud83d",'])
def test_too_many_levels_are_400_and_no_crash(native: Client, stream: str, opening: str, levels: int) -> None:
    native.made(stream, JSON)
    answer = native.post(stream, opening * levels, JSON)
    assert (answer.status, answer.code) == (400, "invalid_json")
    assert native.get(stream).body == b"[]"


def test_many_small_messages_do_not_hold_up_others(native: Client, stream: str) -> None:
    """Megabytes of `1,1,1`: refused or taken, somebody else's append must not wait for long."""
    native.made(stream, JSON)
    native.made(f"{stream}-other")
    body = b"[" + b"1," * 8_000_000 + b"1]"
    with native.wire() as wire:
        wire.send(encode("POST", stream, {"Content-Type": JSON}, body, native.server.port))
        worst = 0.0
        for _ in range(10):
            began = time.monotonic()
            native.added(f"{stream}-other", "x")
            worst = max(worst, time.monotonic() - began)
        answer = wire.answer()
    assert (answer.status, answer.code) == (413, "too_many_messages")
    assert worst < 0.5, f"{worst:.2f} s"
    assert native.get(stream).body == b"[]"


def test_a_large_array_is_taken_whole(client: Client, stream: str) -> None:
    client.made(stream, JSON)
    numbers = list(range(100_000))
    client.added(stream, json.dumps(numbers), JSON)
    assert client.get(stream).json == numbers


def test_the_content_type_decides_not_its_parameters_or_case(client: Client, stream: str) -> None:
    client.made(stream, "Application/JSON; charset=utf-8", "[1]")
    client.added(stream, "[2,3]", "application/json")
    assert client.get(stream).body == b"[1,2,3]"


def test_a_json_suffix_is_not_json(client: Client, stream: str) -> None:
    client.made(stream, "application/problem+json", "[1")
    assert client.get(stream).body == b"[1"
