"""Compares what a stream holds with what was done to it and seen of it. Pure: no network, no clock.

`examine` says what is wrong, and settles what was unknown: after a restart, an append without an answer
either is there, and stays, or is not, and must never turn up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import groupby

from tests.crash.history import Attempt, Outcome, StreamHistory, position_of
from tests.crash.messages import Key, Placed, Torn, parse


class Wrong(Enum):
    LOST = "lost"
    DUPLICATED = "duplicated"
    TORN = "torn"
    SEEN_THEN_LOST = "seen then lost"
    CAME_BACK = "came back"
    DISORDERED = "disordered"
    OFFSET_MOVED = "offset moved"
    PRODUCER = "producer state"
    ANSWER = "unexpected answer"


@dataclass(frozen=True, slots=True)
class Complaint:
    wrong: Wrong
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.wrong.value.upper()} in {self.where}: {self.what}"


@dataclass(frozen=True, slots=True)
class Observed:
    """A stream as the server now shows it; `raw` are its stored bytes."""

    exists: bool
    raw: bytes = b""
    closed: bool = False
    next_offset: str = ""


def examine(stream: StreamHistory, seen: Observed) -> list[Complaint]:
    complaints = [Complaint(wrong, _where(stream), what) for wrong, what in _examine(stream, seen)]
    stream.examinations += 1
    return complaints


Finding = tuple[Wrong, str]


def _where(stream: StreamHistory) -> str:
    return f"{stream.name} (incarnation {stream.incarnation})"


def _examine(stream: StreamHistory, seen: Observed) -> Iterator[Finding]:
    yield from _existence(stream, seen)
    if not seen.exists:
        return
    yield from _closure(stream, seen)
    if not stream.continues(seen.raw):
        yield Wrong.LOST, f"found by an earlier examination: {_difference(stream.confirmed, seen.raw)}"
        return
    try:
        found = parse(stream.kind, seen.raw, stream.confirmed_bytes)
    except (Torn, ValueError) as torn:
        yield Wrong.TORN, str(torn)
        return
    yield from _appends(stream, found, seen)
    yield from _views(stream, seen)
    stream.confirm(seen.raw)


def _existence(stream: StreamHistory, seen: Observed) -> Iterator[Finding]:
    if seen.exists:
        if stream.deleted.happened:
            yield Wrong.CAME_BACK, "the stream was deleted"
        if stream.created is Outcome.ABSENT:
            yield Wrong.CAME_BACK, "the stream's creation had not happened"
        if any(view.gone for view in stream.views):
            yield Wrong.SEEN_THEN_LOST, "a reader was told that the stream is gone"
        stream.created = _settled(stream.created, present=True)
        stream.deleted = _settled(stream.deleted, present=False)
    else:
        if stream.created.happened and stream.deleted is Outcome.ABSENT:
            yield Wrong.LOST, "the stream does not exist, and nobody deleted it"
        stream.deleted = _settled(stream.deleted, present=True)
        stream.created = _settled(stream.created, present=False)


def _closure(stream: StreamHistory, seen: Observed) -> Iterator[Finding]:
    if seen.closed and stream.closed is Outcome.ABSENT:
        yield Wrong.ANSWER, "the stream is closed, and nobody closed it"
    if not seen.closed and stream.closed.happened:
        yield Wrong.LOST, "the closure"
    stream.closed = _settled(stream.closed, present=seen.closed)


def _settled(outcome: Outcome, *, present: bool) -> Outcome:
    if outcome is not Outcome.UNKNOWN:
        return outcome
    return Outcome.PRESENT if present else Outcome.ABSENT


def _appends(stream: StreamHistory, found: list[Placed], seen: Observed) -> Iterator[Finding]:
    for key, group in groupby(found, key=lambda placed: placed.key):
        parts = list(group)
        start, end = parts[0].start, parts[-1].end
        attempt = stream.attempts.pop(key, None)
        if attempt is None or attempt.outcome is Outcome.ABSENT:
            yield _unaccounted(stream, key, start, attempt)
            continue
        stream.places[key] = (start, end)
        if [(part.index, part.count) for part in parts] != [(i, attempt.count) for i in range(attempt.count)]:
            got = [f"{part.index}/{part.count}" for part in parts]
            wrong = Wrong.DUPLICATED if len(parts) > attempt.count else Wrong.TORN
            yield wrong, f"of {attempt.count} messages of {key}: {got}"
        elif seen.raw[start:end] != attempt.stored:
            yield Wrong.TORN, f"{key} has other bytes than were sent"
        yield from _order(stream, attempt)
        if attempt.outcome is Outcome.UNKNOWN:
            attempt.outcome = Outcome.PRESENT
            stream.found_there += 1
        if attempt.next_offset is not None:
            yield from _offset(stream, attempt.next_offset, end, f"the answer to {key}")
        attempt.stored = b""
    for attempt in stream.attempts.values():
        if attempt.outcome.happened:
            yield Wrong.LOST, f"acknowledged append {attempt.key}, {len(attempt.stored)} bytes"
        stream.found_missing += attempt.outcome is Outcome.UNKNOWN
        attempt.outcome = _settled(attempt.outcome, present=False)
        attempt.stored = b""
        stream.absent.add(attempt.key)
    stream.attempts.clear()


def _unaccounted(stream: StreamHistory, key: Key, start: int, attempt: Attempt | None) -> Finding:
    if attempt is not None or key in stream.absent:
        return Wrong.CAME_BACK, f"{key} at {start} was refused, or was not there after an earlier restart"
    if key in stream.places:
        return Wrong.DUPLICATED, f"{key}: at {stream.places[key][0]} and at {start}"
    return Wrong.ANSWER, f"{key} at {start} was never sent to this stream"


def _order(stream: StreamHistory, attempt: Attempt) -> Iterator[Finding]:
    writer = attempt.key[0]
    if attempt.sent_at < stream.sent_by.get(writer, 0):
        yield Wrong.DISORDERED, f"{attempt.key} stands behind a later append of its writer"
    if attempt.acknowledged_at is not None and stream.sent_last > attempt.acknowledged_at:
        yield (
            Wrong.DISORDERED,
            f"{attempt.key} stands behind one that was sent after it had been acknowledged",
        )
    stream.sent_by[writer] = max(attempt.sent_at, stream.sent_by.get(writer, 0))
    stream.sent_last = max(attempt.sent_at, stream.sent_last)


def _views(stream: StreamHistory, seen: Observed) -> Iterator[Finding]:
    for view in stream.views:
        claims = [(view.confirmed_end, bytes(view.data)), *view.claims]
        for start, claimed in claims:
            now = seen.raw[start : start + len(claimed)]
            if now != claimed:
                yield Wrong.SEEN_THEN_LOST, f"by {view.reader}, from {start} on: {_difference(claimed, now)}"
        if view.closed and (not seen.closed or view.end != len(seen.raw)):
            yield Wrong.SEEN_THEN_LOST, f"{view.reader} was told that the stream ends at {view.end}"
        for offset, position in view.checkpoints:
            yield from _offset(stream, offset, position, view.reader)
        view.confirmed_bytes += len(view.data)
        view.data.clear()
        view.claims.clear()
        view.checkpoints.clear()


def _offset(stream: StreamHistory, offset: str, position: int, source: str) -> Iterator[Finding]:
    try:
        claimed = position_of(offset)
    except ValueError as error:
        yield Wrong.ANSWER, f"{source}: {error}"
        return
    if claimed != position:
        yield Wrong.OFFSET_MOVED, f"{source}: {offset} does not stand for byte {position}"
    stream.offsets.append((offset, position))


def _difference(before: bytes, after: bytes) -> str:
    position = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(after))
    was = before[position : position + 60]
    return f"{len(before)} bytes then, {len(after)} now, different from byte {position}, then {was!r}"
