"""JSON mode (base protocol §7.1): a body becomes messages, kept byte for byte.

A message is stored with one trailing comma, so that any range between message boundaries is a
slice of the array that readers get. msgspec finds the boundaries at the speed of C and checks the
syntax; what it leaves out is added here: UTF-8, and lone surrogates (half an emoji at the end of a
token stream), which RFC 8259 allows and msgspec refuses.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from itertools import accumulate

import msgspec

from .ends import TYPECODE, with_commas
from .errors import Code, Refused

_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_value = msgspec.json.Decoder(msgspec.Raw).decode
_SPACE = b" \t\r\n"
_ESCAPE = re.compile(rb"\\(?:u[dD][89abABcCdDeEfF][0-9a-fA-F]{2}|.)", re.DOTALL)
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
    return _ESCAPE.sub(lambda match: b"\\u0041" if len(match[0]) > 2 else match[0], body)
