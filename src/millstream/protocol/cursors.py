"""Stream-Cursor (base protocol §8.1): an interval number that keeps shared caches from looping.

The clock and the jitter are passed in.
"""

from __future__ import annotations

from .times import SECOND_US

CURSOR_EPOCH_US = 1_728_432_000 * SECOND_US  # 2024-10-09T00:00:00Z
CURSOR_INTERVAL_US = 20 * SECOND_US
JITTER_SECONDS_MAX = 3600
_CURSOR_DIGITS_MAX = 1000  # a longer one is not ours; it is ignored


def current_cursor(now_us: int) -> int:
    return max(0, (now_us - CURSOR_EPOCH_US) // CURSOR_INTERVAL_US)


def next_cursor(now_us: int, echoed: str | None, jitter_seconds: int) -> int:
    """The cursor to send: the current interval, or strictly beyond what the client echoed."""
    current = current_cursor(now_us)
    if echoed is None or len(echoed) > _CURSOR_DIGITS_MAX or not (echoed.isascii() and echoed.isdigit()):
        return current
    seen = int(echoed)
    if seen < current:
        return current
    return seen + max(1, jitter_seconds * SECOND_US // CURSOR_INTERVAL_US)
