"""Start: what the store has applied, and the journal from there on, through the same `apply`."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.contracts import Journal, Store
from millstream.protocol.records import decode_columns, facts_of

from .entry import Entry
from .record import chain_hash
from .shard import Shard


class RecoveryFailed(Exception):
    """Journal and store do not fit together; the message says where."""


def recover(shards: Sequence[Shard], store: Store, journal: Journal) -> int:
    """Replays the journal; how many records that were."""
    starts = {}
    for shard in shards:
        applied = store.applied(shard.index)
        if journal.tail(shard.index).sequence < applied.sequence:
            raise RecoveryFailed(
                f"shard {shard.index}: the journal ends at {journal.tail(shard.index).sequence}, "
                f"but the store has applied {applied.sequence}: the end of the journal is missing"
            )
        starts[shard.index] = applied.replay_from
    count = 0
    for record in journal.read(starts):
        shard = shards[record.shard]
        if chain_hash(record.previous_hash, record.body) != record.hash:
            raise RecoveryFailed(f"shard {shard.index}: record {record.sequence} does not match its hash")
        if record.sequence > shard.sequence and record.previous_hash != shard.hash:
            raise RecoveryFailed(
                f"shard {shard.index}: record {record.sequence} does not continue {shard.sequence}: "
                "a part of the journal is missing"
            )
        columns, values = decode_columns(record.body)
        shard.replay(record, list(facts_of(columns, values)), columns.at_us)
        count += 1
    for shard in shards:
        tail = journal.tail(shard.index)
        if (tail.sequence, tail.hash) != (shard.sequence, shard.hash):
            raise RecoveryFailed(
                f"shard {shard.index}: the journal ends at {tail.sequence}, replay at {shard.sequence}"
            )
        shard.start(tail)
    return count


def held_streams(shards: Sequence[Shard], store: Store) -> list[Entry]:
    """Every stream that forks refer to, from the store and from what was replayed."""
    found = []
    for shard in shards:
        keys = dict.fromkeys(store.held(shard.index))
        keys.update(dict.fromkeys(e.key for e in shard.dirty if e.durable is not None and e.durable.holds))
        for key in keys:
            entry = shard.find(key)
            if entry is not None and entry.durable is not None and entry.durable.holds:
                found.append(entry)
    return found
