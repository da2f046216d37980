"""Offsets: `<incarnation>-<position>`, both sixteen digits (amendments §5).

The position counts stored bytes. The incarnation says whose byte stands before it, so that an
offset of a deleted stream is never taken for one of its successor.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from .errors import Code, Refused

BEGINNING: Final = "-1"
NOW: Final = "now"

_PAIR = re.compile(r"([0-9]{16})[-_]([0-9]{16})")
_NUMBER = re.compile(r"[0-9]{1,20}")


class Offset(NamedTuple):
    """`incarnation` is None where the client named a position of the current one."""

    incarnation: int | None
    position: int


class Beginning:
    """`-1`: wherever the stream begins."""


class Now:
    """`now`: the tail as it is when the request is looked at."""


Token = Offset | type[Beginning] | type[Now]


def format_offset(incarnation: int, position: int) -> str:
    return f"{incarnation:016d}-{position:016d}"


def parse_offset(text: str) -> Token:
    pair = _PAIR.fullmatch(text)
    if pair is not None:
        incarnation = int(pair[1])
        return Offset(incarnation or None, int(pair[2]))
    if text == BEGINNING:
        return Beginning
    if text == NOW:
        return Now
    if _NUMBER.fullmatch(text):
        return Offset(None, int(text))
    raise Refused(
        Code.INVALID_OFFSET,
        f"'{text[:80]}' is no offset.",
        hint="Use -1, now, or a Stream-Next-Offset that this server has sent.",
    )
