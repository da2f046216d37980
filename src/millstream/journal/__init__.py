"""Where facts become durable and ordered. `segments` keeps them in local files, `memory` nowhere."""

from .memory import MemoryJournal
from .readonly import ReadOnlyJournal
from .recovery import JournalDamaged
from .segments import SegmentJournal

__all__ = ["JournalDamaged", "MemoryJournal", "ReadOnlyJournal", "SegmentJournal"]
