"""What the harness puts an engine on: an event loop per story, a clock that is moved by hand, seeded
dice, and a journal with a gate.

While the gate is shut, a commit stands still until the test lets it through, loses it, or loses only the
news of it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from functools import partial, wraps
from typing import Any, ParamSpec

from millstream.contracts import CommitUnknown, Completion, SealedRecord, ShardTail
from millstream.journal import MemoryJournal

P = ParamSpec("P")
STORY_SECONDS_MAX = 10.0
SECOND_US = 1_000_000


def story(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that is told on an event loop of its own."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), STORY_SECONDS_MAX))

    return run


class HandClock:
    def __init__(self, now_us: int = 1_800_000_000 * SECOND_US) -> None:
        self.now = now_us

    def now_us(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += int(seconds * SECOND_US)


class SeededRandom:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


def soon(call: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_soon(call)


class GatedJournal(MemoryJournal):
    def __init__(self, shards: int) -> None:
        super().__init__(shards, soon)
        self.shut = False
        self.standing: tuple[Sequence[SealedRecord], Completion] | None = None
        self.reopens = True
        self.largest = 0

    def commit(self, records: Sequence[SealedRecord], done: Completion) -> None:
        self.largest = max([self.largest, *(len(record.body) for record in records)])
        if self.shut:
            assert self.standing is None, "one commit at a time"
            self.standing = (records, done)
        else:
            super().commit(records, done)

    def _take(self) -> tuple[Sequence[SealedRecord], Completion]:
        assert self.standing is not None, "no commit stands at the gate"
        standing, self.standing = self.standing, None
        return standing

    def let_through(self) -> None:
        super().commit(*self._take())

    def lose(self) -> None:
        """The commit fails, and none of it will be found."""
        records, done = self._take()
        self.fail_next = OSError("the disk failed")
        super().commit(records, done)

    def lose_the_news(self) -> None:
        """The commit is durable, but nobody can say so before the journal is reopened."""
        records, done = self._take()
        for record in records:
            self.records.append(record)
            self._tails[record.shard] = ShardTail(
                record.sequence, record.hash, record.epoch, record.sequence + 1
            )
        self._broken = True
        soon(partial(done, CommitUnknown("the disk does not answer")))

    async def reopen(self) -> None:
        if not self.reopens:
            raise OSError("the disk still fails")
        await super().reopen()

    def survivor(self) -> GatedJournal:
        reopened = GatedJournal(len(self._tails))
        reopened.records, reopened._tails = list(self.records), list(self._tails)
        return reopened
