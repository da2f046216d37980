"""Streams in a given state, for rules that look at one."""

from __future__ import annotations

from typing import Any

from millstream.protocol.facts import ForkOrigin
from millstream.protocol.state import ProducerState, StreamState

INCARNATION = 1_700_000_000_000_000


def stream(
    tail: int = 10,
    content_type: str = "text/plain",
    producers: dict[str, ProducerState] | None = None,
    incarnation: int = INCARNATION,
    **fields: Any,
) -> StreamState:
    state = StreamState("test/s", incarnation, content_type)
    state.tail = tail
    state.producers = producers or {}
    for name, value in fields.items():
        setattr(state, name, value)
    return state


def origin(*lineage: tuple[str, int, int]) -> ForkOrigin:
    return ForkOrigin(lineage[-1][0], lineage[-1][1], lineage, None, 0, "hold")
