"""Bodies: JSON is flattened, large ones travel ahead of their append as Parts (ARCHITECTURE §5)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from millstream.protocol.chunks import cut
from millstream.protocol.ends import WIDTH
from millstream.protocol.errors import Code, MillstreamError, Refused
from millstream.protocol.facts import Ends, Part
from millstream.protocol.json_messages import SLICE_BYTES, flatten, flatten_in_slices

from .shard import Shard

PAUSE_SECONDS = 0.0005  # between slices: what has arrived meanwhile is handled first
PART_BYTES = 512 << 10  # a body above this is cut; two of them fill a record


def needs_parts(data: bytes, ends: Ends) -> bool:
    return len(data) + WIDTH * len(ends or ()) > PART_BYTES


def is_large(body: bytes, is_json: bool) -> bool:
    return is_json and len(body) > SLICE_BYTES


def stored_form(body: bytes, is_json: bool, messages_max: int, *, allow_empty: bool) -> tuple[bytes, Ends]:
    """The bytes as they are kept, and the ends of their messages."""
    if not is_json or not body:
        return body, None
    data, ends, count = flatten(body, messages_max)
    if count == 0 and not allow_empty:
        raise Refused(Code.EMPTY_ARRAY, hint="Send at least one element.")
    return data, ends


class Flattening:
    """Flattens a large JSON body in slices; in between the event loop serves everybody else."""

    def __init__(
        self,
        body: bytes,
        messages_max: int,
        done: Callable[[bytes, Ends, int], None],
        failed: Callable[[MillstreamError], None],
    ) -> None:
        self._steps = flatten_in_slices(body, messages_max)
        self._done, self._failed = done, failed

    def advance(self) -> None:
        try:
            next(self._steps)
        except StopIteration as finished:
            self._done(*finished.value)
        except MillstreamError as error:
            self._failed(error)
        else:
            asyncio.get_running_loop().call_later(PAUSE_SECONDS, self.advance)


class PartUpload:
    """Sends a body's Parts one after another, each when the one before is durable.

    `ready` is called with the group when all of them are; it decides the append. Nothing of them
    is ever shown unless that append is made.
    """

    def __init__(
        self,
        shard: Shard,
        wake: Callable[[Shard], None],
        group: int,
        data: bytes,
        ends: Ends,
        ready: Callable[[int], None],
        failed: Callable[[MillstreamError], None],
    ) -> None:
        self._shard, self._wake, self._group = shard, wake, group
        self._pieces = cut((0, data, ends), PART_BYTES, WIDTH)
        self._ready, self._failed = ready, failed
        shard.uploads.add(group)

    def advance(self, outcome: MillstreamError | None = None) -> None:
        if outcome is not None:
            self._shard.uploads.discard(self._group)
            self._shard.parts.pop(self._group, None)
            self._failed(outcome)
            return
        piece = next(self._pieces, None)
        if piece is None:
            self._shard.uploads.discard(self._group)
            self._ready(self._group)
            return
        record = self._shard.add_nameless(Part(self._group, piece[1], piece[2]))
        record.callbacks.append((self.advance, None))
        self._wake(self._shard)
