"""Admission: a request waits a little while there is no room, then it is refused with the reason.

Clients in the field give up or duplicate on 503, so waiting comes first (amendments §6). What is
parked is tried again, in its order, whenever room may have been made.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from millstream.contracts import StoreDamaged
from millstream.protocol.errors import Code, MillstreamError, Refused

from .record import Done, as_told

RETRY_AFTER_SECONDS = 1
PARKED_REQUESTS_MAX = 10_000

Try = Callable[[], None]


class Parked(NamedTuple):
    attempt: Try
    done: Done
    deadline: float
    length: int


class Admission:
    """`reason` says why nothing can be taken now, or None."""

    def __init__(self, reason: Callable[[], Code | None], wait_seconds: float, bytes_max: int) -> None:
        self._reason, self._wait_seconds, self._bytes_max = reason, wait_seconds, bytes_max
        self._parked: deque[Parked] = deque()
        self._bytes = 0  # of the bodies that wait
        self._timer: asyncio.TimerHandle | None = None
        self.closed = False
        self._turn: Parked | None = None

    @property
    def must_wait(self) -> bool:
        """Whoever comes now stands behind those who wait already."""
        return self.closed or (bool(self._parked) and self._turn is None)

    def refusal(self, code: Code | None) -> Refused:
        return Refused(code or Code.OVERLOADED, headers={"Retry-After": str(RETRY_AFTER_SECONDS)})

    def park(self, attempt: Try, done: Done, length: int) -> None:
        if self._turn is not None and self._turn.done is done:
            self._bytes += length
            return self._parked.appendleft(self._turn)  # no room yet: he stays the first
        full = self._bytes + length > self._bytes_max and bool(self._parked)
        if full or len(self._parked) >= PARKED_REQUESTS_MAX:
            raise self.refusal(self._reason())
        loop = asyncio.get_running_loop()
        self._parked.append(Parked(attempt, done, loop.time() + self._wait_seconds, length))
        self._bytes += length
        if self._timer is None:
            self._timer = loop.call_later(self._wait_seconds, self._expire)

    def _next(self) -> Parked:
        parked = self._parked.popleft()
        self._bytes -= parked.length
        return parked

    @property
    def waiting(self) -> bool:
        return bool(self._parked)

    def reconsider(self) -> None:
        """Room may have been made: let in what fits."""
        self.closed = self._reason() is not None
        while self._parked and not self.closed:
            self._turn = parked = self._next()
            try:
                parked.attempt()
            except (MillstreamError, StoreDamaged, OSError) as error:
                parked.done(as_told(error))
            finally:
                self._turn = None
            self.closed = self.closed or self._reason() is not None

    def _expire(self) -> None:
        self._timer = None
        self.reconsider()
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._parked and self._parked[0].deadline <= now:
            self._next().done(self.refusal(self._reason()))
        if self._parked:
            self._timer = loop.call_later(max(0.001, self._parked[0].deadline - now), self._expire)

    def refuse_all(self, error: MillstreamError) -> None:
        while self._parked:
            self._next().done(error)
