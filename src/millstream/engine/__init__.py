"""Shards: decide, commit, apply; reading, live delivery, expiry, admission. `Engine` is the door."""

from .checkpoints import CheckpointLimits
from .context import EngineLimits
from .engine import Engine
from .entry import Entry, Waiter
from .reads import PIECE_BYTES, Reads, Vanished
from .recovery import RecoveryFailed

__all__ = [
    "PIECE_BYTES",
    "CheckpointLimits",
    "Engine",
    "EngineLimits",
    "Entry",
    "Reads",
    "RecoveryFailed",
    "Vanished",
    "Waiter",
]
