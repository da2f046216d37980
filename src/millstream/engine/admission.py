"""Admission: a request waits a little while there is no room, then it is refused with the reason.

Clients in the field give up or duplicate on 503, so waiting comes first (amendments §6). What is
parked is tried again, in its order, whenever room may have been made.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from millstream.contracts import StoreDamaged
from millstream.protocol.errors import Code, MillstreamError, Refused

from .record import Done, as_told

RETRY_AFTER_SECONDS = 1
PARKED_REQUESTS_MAX = 10_000

Try = Callable[[], None]


class Admission:
    """`reason` says why nothing can be taken now, or None."""

    def __init__(self, reason: Callable[[], Code | None], wait_seconds: float) -> None:
        self._reason, self._wait_seconds = reason, wait_seconds
        self._parked: deque[tuple[Try, Done, float]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.closed = False
        self._turn: tuple[Done, float] | None = None  # whose turn it is, and until when he may wait

    @property
    def must_wait(self) -> bool:
        """Whoever comes now stands behind those who wait already."""
        return self.closed or (bool(self._parked) and self._turn is None)

    def refusal(self, code: Code | None) -> Refused:
        return Refused(code or Code.OVERLOADED, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})

    def park(self, attempt: Try, done: Done) -> None:
        if self._turn is not None and self._turn[0] is done:
            return self._parked.appendleft((attempt, *self._turn))  # no room yet: he stays the first
        if len(self._parked) >= PARKED_REQUESTS_MAX:
            raise self.refusal(self._reason())
        loop = asyncio.get_running_loop()
        self._parked.append((attempt, done, loop.time() + self._wait_seconds))
        if self._timer is None:
            self._timer = loop.call_later(self._wait_seconds, self._expire)

    @property
    def waiting(self) -> bool:
        return bool(self._parked)

    def reconsider(self) -> None:
        """Room may have been made: let in what fits."""
        self.closed = self._reason() is not None
        while self._parked and not self.closed:
            attempt, done, deadline = self._parked.popleft()
            self._turn = done, deadline
            try:
                attempt()
            except (MillstreamError, StoreDamaged, OSError) as error:
                done(as_told(error))
            finally:
                self._turn = None
            self.closed = self.closed or self._reason() is not None

    def _expire(self) -> None:
        self._timer = None
        self.reconsider()
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._parked and self._parked[0][2] <= now:
            _, done, _ = self._parked.popleft()
            done(self.refusal(self._reason()))
        if self._parked:
            self._timer = loop.call_later(max(0.001, self._parked[0][2] - now), self._expire)

    def refuse_all(self, error: MillstreamError) -> None:
        while self._parked:
            _, done, _ = self._parked.popleft()
            done(error)
