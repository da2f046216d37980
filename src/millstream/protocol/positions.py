"""Positions and the offsets that name them, for a stream and its lineage (amendments §5).

An offset carries the incarnation of the stream that wrote the byte before it: on a fork, up to
the fork point, an ancestor's; so an offset of the source is an offset of the fork there.
"""

from __future__ import annotations

from .errors import Code, Refused
from .offsets import Beginning, Now, Token, format_offset
from .state import StreamState


def incarnation_at(state: StreamState, position: int) -> int:
    """Whose byte stands before this position; position 0 is the root's."""
    if state.origin is not None:
        for _, incarnation, upto in state.origin.lineage:
            if position <= upto:
                return incarnation
    return state.incarnation


def offset_at(state: StreamState, position: int) -> str:
    if state.origin is None:
        return f"{state.offset_prefix}{position:016d}"
    return format_offset(incarnation_at(state, position), position)


def resolve(state: StreamState, token: Token) -> int:
    """The position that an offset names; refused when it is none of this stream's."""
    if token is Beginning:
        return 0
    if token is Now:
        return state.tail
    assert not isinstance(token, type)
    position = token.position
    if token.incarnation is not None and token.incarnation != incarnation_at(state, position):
        raise Refused(
            Code.OFFSET_GONE,
            "The offset belongs to another stream of this name, which is gone.",
            hint="Read again from -1.",
        )
    if position > state.tail:
        raise Refused(
            Code.OFFSET_PAST_TAIL,
            f"Position {position} lies behind the stream's end at {state.tail}.",
            hint="Read from now, or from an offset that this server has sent.",
            headers={"Stream-Next-Offset": offset_at(state, state.tail)},
        )
    return position


def not_at_boundary(position: int) -> Refused:
    return Refused(
        Code.OFFSET_NOT_AT_BOUNDARY,
        f"Position {position} lies inside a JSON message.",
        hint="Use an offset that this server has sent.",
    )
