"""JSON mode (base protocol §7.1): a body becomes messages, kept byte for byte.

A message is stored with one trailing comma, so that any range between message boundaries is a
slice of the array that readers get. msgspec finds the boundaries at the speed of C and checks the
syntax; what it leaves out is added here: UTF-8, and lone surrogates (half an emoji at the end of a
token stream), which RFC 8259 allows and msgspec refuses.
"""

from __future__ import annotations

import re
from array import array
from codecs import getincrementaldecoder
from collections.abc import Generator, Sequence
from itertools import accumulate
from typing import TypeAlias

import msgspec

from .ends import TYPECODE, shifted, unpacked, with_commas
from .errors import Code, Refused

_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_value = msgspec.json.Decoder(msgspec.Raw).decode
_SPACE = b" \t\r\n"
_SURROGATE = re.compile(rb"\\u[dD][89abABcCdDeEfF][0-9a-fA-F]{2}")
MESSAGES_MAX = 250_000  # amendments §7: what one append may hold; the setting's default


def flatten(body: bytes, messages_max: int = MESSAGES_MAX) -> tuple[bytes, array[int] | None, int]:
    """The stored bytes, the ends of their messages (None: one message), and how many there are."""
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(Code.INVALID_JSON, f"The body is not UTF-8 at byte {error.start}.") from None
    is_array = body.lstrip(_SPACE)[:1] == b"["
    try:
        if not is_array:
            return _single(body) + b",", None, 1
        messages = _split(body)
    except msgspec.DecodeError as error:
        raise Refused(Code.INVALID_JSON, f"{error}.") from None
    except RecursionError:
        raise Refused(Code.INVALID_JSON, "The JSON is nested too deeply.") from None
    count = len(messages)
    if count > messages_max:
        raise too_many(messages_max)
    if count == 0:
        return b"", None, 0
    stored = b",".join([*messages, b""])
    if count == 1:
        return stored, None, 1
    return stored, with_commas(array(TYPECODE, accumulate(map(len, messages)))), count


def too_many(messages_max: int) -> Refused:
    return Refused(
        Code.TOO_MANY_MESSAGES,
        f"The array has more than {messages_max} elements.",
        hint="Send them in several appends.",
    )


def _single(body: bytes) -> bytes:
    try:
        return bytes(_value(body))
    except msgspec.DecodeError:
        masked = _mask_surrogates(body)
        if masked == body:
            raise
    length = len(bytes(_value(masked)))
    start = len(body) - len(body.lstrip(_SPACE))
    return body[start : start + length]


def _split(body: bytes) -> Sequence[msgspec.Raw | bytes]:
    try:
        return _elements(body)
    except msgspec.DecodeError:
        masked = _mask_surrogates(body)
        if masked == body:
            raise
    # The mask keeps every length: the boundaries that it shows are the boundaries of the body.
    messages = []
    at = masked.index(b"[") + 1
    for raw in _elements(masked):
        text = bytes(raw)
        at = masked.index(text, at)
        messages.append(body[at : at + len(text)])
        at += len(text)
    return messages


def _mask_surrogates(body: bytes) -> bytes:
    """Surrogate escapes replaced by a harmless escape of the same length."""
    plain = body.replace(b"\\\\", b"\\n")  # each backslash that is left begins an escape
    return _SURROGATE.sub(rb"\\u0041", plain)


# --- large bodies, slice by slice ---------------------------------------------------------------

SLICE_BYTES = 256 << 10  # a few milliseconds of work; larger bodies are flattened in slices
_WALK_TOKENS_MAX = 4096
# Possessive, so that a string without an end costs one look and no memory; where one begins is found
# by matching up to it: searching would try each escaped quote in it, which took minutes.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_WHOLE_STRINGS = re.compile(rb'(?:[^"]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+', re.DOTALL)
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)

Flat: TypeAlias = "tuple[bytes, array[int] | None, int]"


def flatten_in_slices(body: bytes, messages_max: int = MESSAGES_MAX) -> Generator[None, None, Flat]:
    """`flatten`, with a pause after each slice, so that megabytes of `1,1,1` hold up nobody.

    The body is cut at commas between elements; every slice, in brackets of its own, is checked as
    an array. One message, however large, is checked in one go.
    """
    decoder = getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(body), SLICE_BYTES):
            decoder.decode(body[at : at + SLICE_BYTES], final=at + SLICE_BYTES >= len(body))
            yield
    except UnicodeDecodeError:
        raise Refused(Code.INVALID_JSON, "The body is not UTF-8.") from None
    inner = body.strip(_SPACE)
    if not inner.startswith(b"["):
        return flatten(body, messages_max)
    if not inner.endswith(b"]") or len(inner) < 2:
        raise Refused(Code.INVALID_JSON, "The array does not end.")
    return (yield from _flatten_elements(inner[1:-1], messages_max))


def _flatten_elements(inner: bytes, messages_max: int) -> Generator[None, None, Flat]:
    stored: list[bytes] = []
    ends: list[bytes] = []
    at = length = count = 0
    while at <= len(inner):
        cut = _next_cut(inner, at)
        data, inside, number = flatten(b"[" + inner[at:cut] + b"]", messages_max)
        if number == 0 and (at or cut < len(inner)):
            raise Refused(Code.INVALID_JSON, "There is a comma without an element.")
        count += number
        if count > messages_max:
            raise too_many(messages_max)
        if number:
            stored.append(data)
            ends.append(shifted([len(data)] if inside is None else inside, length))
            length += len(data)
        at = cut + 1
        yield
    return b"".join(stored), (unpacked(b"".join(ends)) if count > 1 else None), count


def _next_cut(inner: bytes, start: int) -> int:
    """The first comma between elements that lies about a slice behind `start`, or the end."""
    depth, at = 0, start
    while at + SLICE_BYTES < len(inner):
        at, change = _skip(inner, at, at + SLICE_BYTES)
        depth += change
        for _, token in zip(range(_WALK_TOKENS_MAX), _TOKEN.finditer(inner, at), strict=False):
            mark = token[0]
            if mark in (b"[", b"{"):
                depth += 1
            elif mark in (b"]", b"}"):
                depth -= 1
            elif mark == b"," and depth == 0:
                return token.start()
            at = token.end()
    return len(inner)


def _skip(inner: bytes, start: int, end: int) -> tuple[int, int]:
    """Jump to `end`, or behind the string that reaches over it; how much the depth has changed."""
    whole = _WHOLE_STRINGS.match(inner, start, end)
    quote = end if whole is None else whole.end()
    bare = _STRING.sub(b"", inner[start:quote])
    if quote < end:  # there a string begins that reaches over the end
        string = _STRING.match(inner, quote)
        end = string.end() if string is not None else len(inner)
    opened = bare.count(b"[") + bare.count(b"{")
    return end, opened - bare.count(b"]") - bare.count(b"}")
