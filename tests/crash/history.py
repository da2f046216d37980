"""What the writers did and what the readers saw: everything that a crash must not change.

Only this process's event loop touches a history, so its ticks (a counter) order all that happened: if the
answer to one append came at a lower tick than the sending of another, it came before it in the stream.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from dataclasses import dataclass, field
from enum import Enum, auto

from tests.crash.messages import Key, Kind

PRODUCER_MEMORY = 64  # appends of each producer: more than it ever has in flight

_tick = itertools.count(1)
_OFFSET = re.compile(r"[0-9]+[-_]([0-9]+)", re.ASCII)


def tick() -> int:
    return next(_tick)


def position_of(offset: str) -> int:
    """Offsets are `<incarnation>-<position>`; the position counts stored bytes (amendments, section 5)."""
    match = _OFFSET.fullmatch(offset)
    if match is None:
        raise ValueError(f"not an offset: {offset!r}")
    return int(match[1])


def _digest(raw: bytes) -> bytes:
    return hashlib.blake2b(raw, digest_size=16).digest()


class Outcome(Enum):
    UNKNOWN = auto()  # sent, and no answer (yet): it may have happened
    ACKNOWLEDGED = auto()  # the server said so: it must be there, for ever
    PRESENT = auto()  # found after a restart: it must stay
    ABSENT = auto()  # refused, or not found after a restart: it must never appear

    @property
    def happened(self) -> bool:
        return self in (Outcome.ACKNOWLEDGED, Outcome.PRESENT)


@dataclass(slots=True)
class Attempt:
    """One append (of one or more messages) under one identity."""

    key: Key
    stored: bytes
    count: int
    sent_at: int
    outcome: Outcome = Outcome.UNKNOWN
    acknowledged_at: int | None = None
    next_offset: str | None = None

    def acknowledge(self, next_offset: str | None) -> None:
        """`next_offset` is None when the answer was not to this very request (a duplicate, an inference)."""
        self.outcome = Outcome.ACKNOWLEDGED
        if self.acknowledged_at is None:
            self.acknowledged_at = tick()
            self.next_offset = next_offset


@dataclass(slots=True)
class View:
    """What one reader saw of a stream, from `start` on, and under which offsets.

    `data` is what no examination has confirmed yet. `claims` are bytes that were seen without a complete
    answer around them, with their positions.
    """

    reader: str
    start: int
    offset: str
    confirmed_bytes: int = 0
    data: bytearray = field(default_factory=bytearray)
    checkpoints: list[tuple[str, int]] = field(default_factory=list)
    claims: list[tuple[int, bytes]] = field(default_factory=list)
    closed: bool = False
    gone: bool = False

    @property
    def confirmed_end(self) -> int:
        return self.start + self.confirmed_bytes

    @property
    def end(self) -> int:
        return self.confirmed_end + len(self.data)

    def extend(self, stored: bytes, next_offset: str) -> None:
        self.data += stored
        self.checkpoints.append((next_offset, self.end))
        self.offset = next_offset

    def claim(self, stored: bytes) -> None:
        if stored:
            self.claims.append((self.end, stored))


@dataclass(slots=True)
class Producer:
    """What was sent under one producer id to one stream."""

    name: str
    epoch: int = 0
    next_seq: int = 0
    sent: list[tuple[int, int, Attempt]] = field(default_factory=list)  # epoch, sequence, append

    def highest(self) -> tuple[int, int, Attempt] | None:
        """The last one that is known to have happened."""
        happened = (entry for entry in reversed(self.sent) if entry[2].outcome.happened)
        return next(happened, None)


@dataclass(slots=True)
class StreamHistory:
    """One incarnation of one stream.

    `attempts` holds what no examination has settled yet; what one has settled is in `places` (it is there)
    or in `absent` (it never may be). `confirmed` holds the bytes, or, of a stream that has come to rest,
    only their digest is kept: a campaign is long.
    """

    name: str
    incarnation: int
    kind: Kind
    created: Outcome = Outcome.UNKNOWN
    closed: Outcome = Outcome.ABSENT
    deleted: Outcome = Outcome.ABSENT
    abandoned: bool = False  # no writer will touch it again
    first_offset: str | None = None  # as the creation answered
    attempts: dict[Key, Attempt] = field(default_factory=dict)
    views: list[View] = field(default_factory=list)
    producers: dict[str, Producer] = field(default_factory=dict)
    confirmed: bytes = b""
    confirmed_bytes: int = 0
    digest: bytes | None = None
    places: dict[Key, tuple[int, int]] = field(default_factory=dict)
    absent: set[Key] = field(default_factory=set)
    offsets: list[tuple[str, int]] = field(default_factory=list)  # given out by the server, and their bytes
    sent_last: int = 0  # the highest `sent_at` in the stream
    sent_by: dict[str, int] = field(default_factory=dict)  # the same per writer
    examinations: int = 0
    found_there: int = 0  # of the appends whose outcome was unknown
    found_missing: int = 0
    bytes_sent: int = 0

    @property
    def path(self) -> str:
        return f"/v1/stream/{self.name}"

    @property
    def alive(self) -> bool:
        """Created for certain, and nobody has asked for its deletion."""
        return self.created.happened and self.deleted is Outcome.ABSENT

    @property
    def resting(self) -> bool:
        """Nothing more will happen to it, and that has been examined."""
        return self.examinations >= 2 and (
            self.abandoned or self.deleted.happened or self.closed.happened or self.created is Outcome.ABSENT
        )

    def attempt(self, key: Key, stored: bytes, count: int = 1) -> Attempt:
        assert key not in self.attempts, f"{key} is under way already"
        assert key not in self.places, f"{key} is in the stream already"
        made = Attempt(key, stored, count, tick())
        self.attempts[key] = made
        self.bytes_sent += len(stored)
        return made

    def continues(self, raw: bytes) -> bool:
        """Whether the stream, as it now is, begins with what was confirmed."""
        if self.digest is None:
            return raw.startswith(self.confirmed)
        return len(raw) >= self.confirmed_bytes and _digest(raw[: self.confirmed_bytes]) == self.digest

    def confirm(self, raw: bytes) -> None:
        self.confirmed_bytes = len(raw)
        self.digest = _digest(raw) if self.resting else None
        self.confirmed = b"" if self.resting else raw
        if self.resting:
            for settled in (self.places, self.absent, self.producers):
                settled.clear()
        for producer in self.producers.values():
            del producer.sent[:-PRODUCER_MEMORY]

    def resend(self, attempt: Attempt, stored: bytes) -> None:
        """The same append under the same identity again: what was settled as absent is unknown once more."""
        if attempt.outcome is Outcome.ABSENT:
            self.absent.discard(attempt.key)
            self.attempts[attempt.key] = attempt
            attempt.outcome, attempt.stored = Outcome.UNKNOWN, stored

    def producer(self, name: str) -> Producer:
        return self.producers.setdefault(name, Producer(name))


@dataclass(slots=True)
class History:
    streams: list[StreamHistory] = field(default_factory=list)

    def stream(self, name: str, incarnation: int, kind: Kind) -> StreamHistory:
        made = StreamHistory(name, incarnation, kind)
        self.streams.append(made)
        return made
