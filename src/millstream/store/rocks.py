"""RocksDB (rocksdict) as an ordered map, without a write-ahead log: the journal is the only one.

The only module that knows rocksdict, which raises bare `Exception`: here that becomes
`StoreDamaged` or `OSError`. Writes and reads hold the GIL (batches stay small); `flush` does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from millstream.contracts import StoreDamaged

CACHE_BYTES = 64 << 20  # decompressed pages; what readers want again lies in the engine's own cache
MEMTABLE_BYTES = 32 << 20
BLOOM_BITS = 10
BLOB_BYTES_MIN = 4 << 10


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(MEMTABLE_BYTES)
    options.set_max_write_buffer_number(4)
    options.set_max_background_jobs(2)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_compression_type(DBCompressionType.lz4())  # measured: a tenth of the core went into it
    options.set_enable_blob_files(True)  # large blocks are written once, not again by each compaction
    options.set_blob_compression_type(DBCompressionType.lz4())
    options.set_min_blob_size(BLOB_BYTES_MIN)
    options.set_enable_blob_gc(True)
    options.set_paranoid_checks(True)
    options.set_keep_log_file_num(2)
    options.set_max_open_files(512)
    table = BlockBasedOptions()
    table.set_bloom_filter(BLOOM_BITS, block_based=False)
    table.set_block_cache(Cache(CACHE_BYTES))
    table.set_cache_index_and_filter_blocks(True)
    options.set_block_based_table_factory(table)
    return options


class RocksMap:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        try:
            self._db = Rdict(str(directory), _options())
        except Exception as error:
            raise self._failed(error) from error
        without_log = WriteOptions()
        without_log.disable_wal = True  # type: ignore[method-assign,assignment]  # a property, not a method
        without_log.no_slowdown = True  # a stall is refused, not waited for
        self._db.set_write_options(without_log)
        self._read_options = ReadOptions()
        self._read_options.set_verify_checksums(True)

    def _failed(self, error: Exception) -> Exception:
        if isinstance(error, OSError):
            return error
        text = str(error)
        if "orruption" in text:
            return StoreDamaged(f"{self._directory}: {text}")
        return OSError(f"{self._directory}: {text}")

    def get(self, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._db.get(key)
        except Exception as error:
            raise self._failed(error) from error
        return value

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        try:
            cursor = self._db.iter(self._read_options)
            cursor.seek(start)
            while cursor.valid():
                key: Any = cursor.key()
                if key >= end:
                    return
                yield key, cursor.value()
                cursor.next()
            cursor.status()
        except Exception as error:
            raise self._failed(error) from error

    def last_at_or_before(self, start: bytes, at: bytes) -> tuple[bytes, bytes] | None:
        try:
            cursor = self._db.iter(self._read_options)
            cursor.seek_for_prev(at)
            if not cursor.valid():
                cursor.status()
                return None
            key: Any = cursor.key()
            return (key, cursor.value()) if key >= start else None
        except Exception as error:
            raise self._failed(error) from error

    def batch(self) -> WriteBatch:
        return WriteBatch(raw_mode=True)

    def write(self, batch: WriteBatch) -> None:
        try:
            self._db.write(batch)
        except Exception as error:
            raise self._failed(error) from error

    def flush(self) -> None:
        try:
            self._db.flush(wait=True)
        except Exception as error:
            raise self._failed(error) from error

    def close(self) -> None:
        try:
            self._db.close()
        except Exception as error:
            raise self._failed(error) from error
