"""A shard: its streams, its one order of records, and how a fact becomes durable.

Everything here runs on the event loop and never waits. `add_…` puts a fact into the open record and
applies it to the stream's `ahead`; `commit_next` hands the record out; `committed` applies the
same facts to what everybody sees, then wakes readers, then answers. A failed record takes every
later one with it (`failed`), and the shard goes back to its durable state.
"""

from __future__ import annotations

from collections import deque

from millstream.contracts import Clock, Footing, Random, Removal, SealedRecord, ShardTail, Store
from millstream.protocol import state as states
from millstream.protocol.ends import WIDTH
from millstream.protocol.facts import (
    Appended,
    Created,
    Ended,
    Ends,
    Fact,
    HoldRefused,
    HoldReleased,
    Part,
)
from millstream.protocol.records import RECORD_BYTES_MAX, StreamName
from millstream.protocol.state import Life, StreamState

from .entry import Entry
from .record import OpenRecord

FORGET_LOOKS_MAX = 4000  # per attempt, so that it does not hold up the loop
FACT_OVERHEAD = 64  # what a small fact adds to a record besides its bytes, about
CREATION_OVERHEAD = 400  # a content type, an expiry, a fork's lineage
_NO_NAME: StreamName = ("", 0, "")


class Load:
    """Bytes that are decided and not yet durable, all shards together."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0


class PartGroup:
    """The Parts of one body, from the first that is durable on until their append is applied."""

    __slots__ = ("first_sequence", "length", "pieces")

    def __init__(self, first_sequence: int) -> None:
        self.first_sequence = first_sequence
        self.pieces: list[tuple[bytes, Ends]] = []
        self.length = 0


class Shard:
    def __init__(
        self,
        index: int,
        store: Store,
        clock: Clock,
        random: Random,
        load: Load,
        entries_max: int = 200_000,
    ) -> None:
        self.index = index
        self.load = load
        self._entries_max = entries_max
        self._resting: deque[Entry] = deque()
        self._store, self._clock = store, clock
        self.entries: dict[str, Entry] = {}
        self.open: OpenRecord | None = None
        self._full: deque[OpenRecord] = deque()
        self.in_flight: OpenRecord | None = None
        self.dirty: dict[Entry, None] = {}
        self.removals: list[Removal] = []
        self.unsaved_bytes = 0
        self.parts: dict[int, PartGroup] = {}
        self.uploads: set[int] = set()  # groups whose request still waits; Parts of others are dropped
        self._replaying = True
        self.holds_refused: set[str] = store.holds_refused(index)
        self.holds_refused_unsaved: list[str] = []
        self._batch_base = random.below(1 << 62)
        applied = store.applied(index)
        self.sequence, self.hash, self.epoch = applied.sequence, applied.hash, applied.epoch
        self.next_sequence = applied.sequence + 1
        self.last_incarnation, self.last_at_us = applied.last_incarnation, applied.last_at_us

    # --- finding ------------------------------------------------------------------------------

    def find(self, key: str) -> Entry | None:
        entry = self.entries.get(key)
        if entry is None:
            loaded = self._store.load(self.index, key)
            if loaded is None:
                return None
            entry = self.entries[key] = Entry(key, *loaded)
            self.rest(entry)
        return entry

    def find_or_make(self, key: str) -> Entry:
        entry = self.find(key)
        if entry is None:
            entry = self.entries[key] = Entry(key, None, Footing())
        return entry

    def rest(self, entry: Entry) -> None:
        """The store has everything of it: it may leave memory when there are too many."""
        if not entry.queued:
            entry.queued = True
            self._resting.append(entry)

    def forget(self) -> None:
        """Streams at rest leave memory, the longest unchanged first. Only to be called where nobody
        holds an entry that he found before."""
        looks = FORGET_LOOKS_MAX if len(self.entries) > self._entries_max else 0
        while looks and self._resting and len(self.entries) > self._entries_max:
            looks -= 1
            entry = self._resting.popleft()
            entry.queued = False
            if entry in self.dirty:
                continue  # it comes back when it has been saved
            if entry.at_rest:
                if self.entries.get(entry.key) is entry:
                    del self.entries[entry.key]
            else:
                self.rest(entry)

    def new_incarnation(self, above: int = 0) -> int:
        self.last_incarnation = max(self._clock.now_us(), self.last_incarnation + 1, above + 1)
        return self.last_incarnation

    # --- filling records ----------------------------------------------------------------------

    def open_record(self) -> OpenRecord:
        record = self.open
        if record is None:
            self.last_at_us = max(self._clock.now_us(), self.last_at_us)
            record = self.open = OpenRecord(self.last_at_us)
        elif record.length >= RECORD_BYTES_MAX // 2:
            self._full.append(record)
            self.last_at_us = max(self._clock.now_us(), self.last_at_us)
            record = self.open = OpenRecord(self.last_at_us)
        return record

    def add_append(self, entry: Entry, ahead: StreamState, fact: Appended, length: int) -> OpenRecord:
        """The hot path: an append, already decided, with the length of its Parts included."""
        record = self.open_record()
        states.append(ahead, fact, length, record.at_us)
        record.items.append((ahead.name, fact))
        record.entries.append(entry)
        size = len(fact.data) + len(entry.key) + FACT_OVERHEAD
        if fact.ends is not None:
            size += WIDTH * len(fact.ends)
        if fact.producer is not None:
            size += len(fact.producer.id)
        if fact.stream_seq is not None:
            size += len(fact.stream_seq)
        record.length += size
        self.load.bytes += size
        entry.record = record
        return record

    def add_created(self, entry: Entry, incarnation: int, fact: Created) -> OpenRecord:
        record = self.open_record()
        length = len(fact.data) + self.part_length(fact.part_group)
        entry.ahead = states.create(entry.key, incarnation, fact, length, record.at_us)
        size = len(fact.data) + WIDTH * len(fact.ends or ()) + CREATION_OVERHEAD
        self._add(record, entry, entry.ahead.name, fact, size)
        return record

    def add_change(self, entry: Entry, ahead: StreamState, fact: Fact) -> OpenRecord:
        record = self.open_record()
        states.apply(ahead, fact)
        self._add(record, entry, ahead.name, fact, 0)
        return record

    def add_nameless(self, fact: Part | HoldRefused) -> OpenRecord:
        record = self.open_record()
        size = FACT_OVERHEAD
        if isinstance(fact, Part):
            size += len(fact.data) + WIDTH * len(fact.ends or ())
        record.items.append((_NO_NAME, fact))
        record.entries.append(None)
        record.length += size
        self.load.bytes += size
        return record

    def _add(self, record: OpenRecord, entry: Entry, name: StreamName, fact: Fact, length: int) -> None:
        record.items.append((name, fact))
        record.entries.append(entry)
        size = length + len(entry.key) + FACT_OVERHEAD
        record.length += size
        self.load.bytes += size
        entry.record = record

    def part_length(self, group: int) -> int:
        return self.parts[group].length if group else 0

    # --- committing ---------------------------------------------------------------------------

    def commit_next(self) -> SealedRecord | None:
        if self._full:
            record = self._full.popleft()
        elif self.open is not None:
            record, self.open = self.open, None
        else:
            return None
        self.in_flight = record
        sequence = self.next_sequence
        self.next_sequence += 1
        return record.seal(self.index, self.epoch, sequence, self._batch_base + sequence, self.hash)

    def has_open(self) -> bool:
        return self.open is not None or bool(self._full)

    def committed(self) -> list[Entry]:
        """The record in flight is durable: apply it. The entries whose readers are to be woken."""
        record = self.in_flight
        assert record is not None and record.sealed is not None
        self.sequence, self.hash = record.sealed.sequence, record.sealed.hash
        woken: list[Entry] = []
        dirty = self.dirty
        at_us = record.at_us
        for entry, (name, fact) in zip(record.entries, record.items, strict=True):
            if entry is None:
                self._apply_nameless(fact, record.sealed)
                continue
            if type(fact) is Appended and not fact.part_group:
                durable = entry.durable
                data = fact.data
                states.append(durable, fact, len(data), at_us)  # type: ignore[arg-type]
                if data:
                    entry.chunks.append((fact.position, data, fact.ends))
                if fact.producer is not None:
                    entry.producer_changed(fact.producer.id)
            else:
                self.apply(entry, name, fact, at_us)
            dirty[entry] = None
            if entry.record is record:
                entry.record = None
                if entry.ahead is not None and entry.ahead.producers:
                    entry.ahead.producers.clear()
            if entry.audience is not None:
                woken.append(entry)
        self.unsaved_bytes += record.length
        self.load.bytes -= record.length
        self.in_flight = None
        return woken

    def apply(self, entry: Entry, name: StreamName, fact: Fact, at_us: int) -> None:
        """One durable fact, to the durable state."""
        if isinstance(fact, Created):
            pieces = self._take_parts(fact.part_group) or ([(fact.data, fact.ends)] if fact.data else [])
            durable = states.create(entry.key, name[1], fact, sum(len(data) for data, _ in pieces), at_us)
            entry.begin(durable)
            if entry.ahead is not None and entry.ahead.incarnation == durable.incarnation:
                entry.ahead._base = durable
            self._add_chunks(entry, durable.tail - sum(len(data) for data, _ in pieces), pieces)
            return
        state = entry.durable
        if state is None or state.incarnation != name[1]:
            assert not isinstance(fact, Appended)  # a stream that has gone can only be ended again
            return
        if isinstance(fact, Appended):
            pieces = self._take_parts(fact.part_group) or ([(fact.data, fact.ends)] if fact.data else [])
            states.append(state, fact, sum(len(data) for data, _ in pieces), at_us)
            self._add_chunks(entry, fact.position, pieces)
            if fact.producer is not None:
                entry.producer_changed(fact.producer.id)
            return
        states.apply(state, fact)
        if state.life is Life.ENDED:
            entry.expires_us = None
        if state.life is Life.REMOVED and isinstance(fact, Ended | HoldReleased):
            self._removed(entry, state)

    def _removed(self, entry: Entry, state: StreamState) -> None:
        if entry.saved:
            self.removals.append(Removal(entry.key, state.incarnation, entry.footing, False))
        entry.durable = None
        entry.footing = Footing()
        entry.saved = False
        entry.chunks = []
        entry.producers_changed = None
        entry.expires_us = None
        if entry.ahead is not None and entry.ahead.incarnation == state.incarnation:
            entry.ahead = None

    def _add_chunks(self, entry: Entry, position: int, pieces: list[tuple[bytes, Ends]]) -> None:
        for data, ends in pieces:
            entry.add_chunk(position, data, ends)
            position += len(data)

    def _apply_nameless(self, fact: Fact, record: SealedRecord) -> None:
        if isinstance(fact, Part):
            if not self._replaying and fact.group not in self.uploads:
                return  # its request was given up before this was known to be durable
            group = self.parts.get(fact.group)
            if group is None:
                group = self.parts[fact.group] = PartGroup(record.sequence)
            group.pieces.append((fact.data, fact.ends))
            group.length += len(fact.data)
        elif isinstance(fact, HoldRefused):
            self.holds_refused.add(fact.hold)
            self.holds_refused_unsaved.append(fact.hold)

    def _take_parts(self, group_id: int) -> list[tuple[bytes, Ends]]:
        if not group_id:
            return []
        return self.parts.pop(group_id).pieces

    # --- failing ------------------------------------------------------------------------------

    def waiting_records(self) -> list[OpenRecord]:
        """Records that were never handed out."""
        return [record for record in (*self._full, self.open) if record is not None]

    def failed(self, tail: ShardTail) -> list[OpenRecord]:
        """The record in flight did not become durable: back to the durable state. The records
        whose callbacks are to be failed are returned."""
        in_flight = [] if self.in_flight is None else [self.in_flight]
        records = in_flight + self.waiting_records()
        self.in_flight, self.open = None, None
        self._full.clear()
        for record in records:
            self.load.bytes -= record.length
            for _, fact in record.items:
                if isinstance(fact, Appended | Created) and fact.part_group:
                    self.parts.pop(fact.part_group, None)
            for entry in record.entries:
                if entry is not None:
                    entry.ahead = None
                    entry.record = None
                    if entry.durable is None and not entry.watched and entry not in self.dirty:
                        self.entries.pop(entry.key, None)
        self.next_sequence = max(self.next_sequence, tail.next_sequence)
        return records

    # --- replay -------------------------------------------------------------------------------

    def replay(self, record: SealedRecord, items: list[tuple[StreamName, Fact]], at_us: int) -> None:
        """One record from the journal, at start: the same effects, without anybody waiting."""
        parts_only = record.sequence <= self.sequence
        for name, fact in items:
            if isinstance(fact, Part):
                self._apply_nameless(fact, record)
            elif parts_only:
                if isinstance(fact, Appended | Created) and fact.part_group:
                    self.parts.pop(fact.part_group, None)
            elif isinstance(fact, HoldRefused):
                self._apply_nameless(fact, record)
            else:
                entry = self.find_or_make(name[0])
                self.apply(entry, name, fact, at_us)
                self.dirty[entry] = None
                if isinstance(fact, Created):
                    self.last_incarnation = max(self.last_incarnation, name[1])
                if entry.durable is not None:
                    entry.expires_us = entry.durable.deadline_us
        if not parts_only:
            self.sequence, self.hash, self.epoch = record.sequence, record.hash, record.epoch
            self.last_at_us = max(self.last_at_us, at_us)
            self.unsaved_bytes += len(record.body)

    def start(self, tail: ShardTail) -> None:
        """Replay is over: a new epoch begins; Parts of older ones will never be named."""
        self.parts.clear()
        self._replaying = False
        self.epoch = max(self.epoch, tail.epoch) + 1
        self.next_sequence = max(self.sequence + 1, tail.next_sequence)
