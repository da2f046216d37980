"""ETags: of a stream's state (HEAD, PUT, POST) and of a range that was read (GET).

state   "<incarnation>-<tail>[:c]"
range   "<incarnation>:<start>:<end>[:c][:n]"      c: closed at its end, n: NDJSON
"""

from __future__ import annotations

import re

from .state import StreamState

_RANGE = re.compile(r'"([0-9]{1,20}):[0-9]{1,20}:([0-9]{1,20})(:c)?(?::n)?"')
_MEMBER = re.compile(r'(W/)?("[^"]*")')


def state_etag(state: StreamState) -> str:
    return f'"{state.incarnation}-{state.tail}{":c" if state.closed else ""}"'


def range_etag(state: StreamState, start: int, end: int, closed: bool, ndjson: bool) -> str:
    return f'"{state.incarnation}:{start}:{end}{":c" if closed else ""}{":n" if ndjson else ""}"'


def _members(header: str) -> list[str]:
    return [match[2] for match in _MEMBER.finditer(header)]


def none_match(header: str, etag: str) -> bool:
    """If-None-Match: whether the client already has it (weak comparison)."""
    return header.strip() == "*" or etag in _members(header)


def state_matches(header: str, state: StreamState) -> bool:
    """If-Match: `*`, the state's own ETag, or that of a read that ended at this state."""
    if header.strip() == "*":
        return True
    own = state_etag(state)
    for match in _MEMBER.finditer(header):
        if match[1]:
            continue  # If-Match compares strongly
        if match[2] == own:
            return True
        read = _RANGE.fullmatch(match[2])
        if read and (int(read[1]), int(read[2]), bool(read[3])) == (
            state.incarnation,
            state.tail,
            state.closed,
        ):
            return True
    return False
