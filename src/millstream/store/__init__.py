"""The materialised state on this node: one keyspace, over RocksDB or over memory."""

from .directory import DataDirectory, DirectoryRefused
from .keyspace import KeyspaceStore
from .memory import MemoryMap
from .rocks import RocksMap

__all__ = ["DataDirectory", "DirectoryRefused", "KeyspaceStore", "MemoryMap", "RocksMap"]
