"""A record that is being filled, and what waits for it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from xxhash import xxh3_64_intdigest

from millstream.contracts import SealedRecord, StoreDamaged
from millstream.protocol.errors import Code, MillstreamError
from millstream.protocol.facts import Fact
from millstream.protocol.records import StreamName, encode

from .entry import Entry

log = logging.getLogger("millstream.engine")

Done = Callable[[Any], None]  # called once, with the answer or with a MillstreamError


class OpenRecord:
    """Facts of one shard in order, the entries that they are about, and the callbacks."""

    __slots__ = ("at_us", "callbacks", "entries", "items", "length", "sealed")

    def __init__(self, at_us: int) -> None:
        self.at_us = at_us
        self.items: list[tuple[StreamName, Fact]] = []
        self.entries: list[Entry | None] = []
        self.callbacks: list[tuple[Done, Any]] = []
        self.length = 0
        self.sealed: SealedRecord | None = None

    def seal(self, shard: int, epoch: int, sequence: int, batch_id: int, previous_hash: int) -> SealedRecord:
        body = encode(self.at_us, self.items)
        self.sealed = SealedRecord(
            shard, epoch, sequence, batch_id, previous_hash, chain_hash(previous_hash, body), body
        )
        return self.sealed

    def answer(self) -> None:
        callbacks, self.callbacks = self.callbacks, []
        for done, answer in callbacks:
            tell(done, answer)

    def fail(self, error: MillstreamError) -> None:
        callbacks, self.callbacks = self.callbacks, []
        for done, _ in callbacks:
            tell(done, error)


def tell(done: Done, answer: Any) -> None:
    """What goes wrong with one request keeps no other one from its answer."""
    try:
        done(answer)
    except Exception:
        log.exception("an answer could not be given")


def as_told(error: Exception) -> MillstreamError:
    """What a waiting request is told of a store that fails."""
    if isinstance(error, MillstreamError):
        return error
    log.error("a request failed: %s", error)
    return MillstreamError(Code.STORAGE_DAMAGED if isinstance(error, StoreDamaged) else Code.INTERNAL)


def chain_hash(previous: int, body: bytes) -> int:
    """Over the shard's previous hash and this body."""
    return xxh3_64_intdigest(body, seed=previous)
