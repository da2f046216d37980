"""Reads what strace wrote (`-f -ttt -yy`) and proves, or disproves, that answers waited for the disk.

Calls of several threads interleave: one that others interrupt is printed as `<unfinished …>` and, later,
`<… resumed>`. strace prints in the order in which it saw calls begin and end, and no thread runs on before
its call's end has been seen, so line numbers order what depends on each other: if the server sends an
answer because a sync returned, the line of that return comes first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

RECEIVING = frozenset({"read", "readv", "recvfrom", "recvmsg"})
WRITING = frozenset({"write", "writev", "pwrite64", "pwritev", "pwritev2"})
SENDING = frozenset({"write", "writev", "sendto", "sendmsg", "sendmmsg"})
SYNCING = frozenset({"fdatasync", "fsync"})
TRACED = RECEIVING | WRITING | SENDING | SYNCING
STRING_BYTES_MAX = 4_000_000  # of a call's data: markers must not be cut off

MARKER = re.compile(r"<<[a-z0-9.]+>>")
MARKER_LENGTH_MAX = 64

_LINE = re.compile(r"(\d+)\s+(?:\d+\.\d+\s+)?(.*)", re.DOTALL)
_CALL = re.compile(r"(\w+)\((\d+)<(.*?)>(?=[,) ])(.*)", re.DOTALL)
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)", re.DOTALL)
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_RESULT = re.compile(r"\)\s+= (-?\d+)")
_UNFINISHED = "<unfinished ...>"


@dataclass(slots=True)
class Call:
    name: str
    file: str  # descriptor and what it refers to: 7</data/journal/1> or 9<TCP:[…->…]>
    text: str
    began: int  # line numbers
    ended: int | None = None
    result: int | None = None

    @property
    def is_socket(self) -> bool:
        return "<TCP" in self.file or "<socket:" in self.file

    @property
    def succeeded(self) -> bool:
        return self.result is not None and self.result >= 0

    @property
    def data(self) -> str:
        """The bytes that were moved, as strace spells them."""
        return "".join(_STRING.findall(self.text))


@dataclass(frozen=True, slots=True)
class Append:
    """A request that was answered with 2xx. Its markers were in its body, the first one at the beginning."""

    markers: tuple[str, ...]


def marker(name: str) -> str:
    return f"<<{name}>>"


def parse(lines: Iterable[str]) -> list[Call]:
    calls: list[Call] = []
    open_calls: dict[str, Call] = {}
    for number, line in enumerate(lines):
        match = _LINE.match(line)
        if match is None:
            continue
        thread, rest = match.groups()
        if (resumed := _RESUMED.match(rest)) is not None:
            call = open_calls.pop(thread, None)
            if call is not None:
                call.text += resumed[2]
                _end(call, number)
        elif (begun := _CALL.match(rest)) is not None and begun[1] in TRACED:
            name, descriptor, target, text = begun.groups()
            call = Call(name, f"{descriptor}<{target}>", text, number)
            calls.append(call)
            if text.rstrip().endswith(_UNFINISHED):
                call.text = text.rstrip().removesuffix(_UNFINISHED)
                open_calls[thread] = call
            else:
                _end(call, number)
    return calls


def _end(call: Call, number: int) -> None:
    results = _RESULT.findall(call.text[-200:])
    call.ended = number
    call.result = int(results[-1]) if results else None


class Trace:
    def __init__(self, calls: list[Call], data_dir: Path) -> None:
        self.received: dict[str, Call] = {}
        self.written: dict[str, list[Call]] = {}
        self.sent: dict[str, list[Call]] = {}
        self.syncs: dict[str, list[Call]] = {}
        received_last: dict[str, str] = {}  # a marker may come in two pieces
        for call in calls:
            if call.is_socket and call.name in RECEIVING:
                data = received_last.get(call.file, "") + call.data
                for found in MARKER.findall(data):
                    self.received.setdefault(found, call)
                received_last[call.file] = data[-MARKER_LENGTH_MAX:]
            elif call.is_socket and call.name in SENDING:
                self.sent.setdefault(call.file, []).append(call)
            elif call.name in WRITING and f"<{data_dir}/" in call.file:
                for found in MARKER.findall(call.data):
                    self.written.setdefault(found, []).append(call)
            elif call.name in SYNCING:
                self.syncs.setdefault(call.file, []).append(call)

    def check(self, appends: Iterable[Append]) -> Iterator[str]:
        """What is wrong with each append: nothing, if its answer waited for the disk."""
        for append in appends:
            first = append.markers[0]
            answer = self._answer(first)
            if answer is None:
                yield f"{first}: its request or its answer is not in the trace"
                continue
            for found in append.markers:
                yield from self._covered(found, answer)

    def _answer(self, first: str) -> Call | None:
        """One request at a time per connection: the answer is the first one sent there after the request."""
        request = self.received.get(first)
        if request is None or request.ended is None:
            return None
        sent = self.sent.get(request.file, [])
        return next(
            (call for call in sent if call.began > request.ended and '"HTTP/1.1 2' in call.text), None
        )

    def _covered(self, found: str, answer: Call) -> Iterator[str]:
        writes = [call for call in self.written.get(found, []) if call.succeeded]
        if not writes:
            yield f"{found}: answered, but never written below the data directory"
        elif not any(self._synced(write, answer) for write in writes):
            places = ", ".join(f"{write.name} {write.file} in line {write.ended}" for write in writes)
            yield f"{found}: answered in line {answer.began} without a sync between it and {places}"

    def _synced(self, write: Call, answer: Call) -> bool:
        """A sync of that file that began after the write had returned and ended before the answer began."""
        return any(
            write.ended is not None
            and sync.began > write.ended
            and sync.result == 0
            and sync.ended is not None
            and sync.ended < answer.began
            for sync in self.syncs.get(write.file, [])
        )
