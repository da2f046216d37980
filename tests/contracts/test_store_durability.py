"""What a flush has covered outlives the process; the rest may be gone (§7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.contracts import StoreDamaged
from millstream.store import DataDirectory, DirectoryRefused, KeyspaceStore, MemoryMap, RocksMap, keys

from .stores import Saver, opened


def test_what_was_flushed_survives_a_crash_and_what_was_not_is_gone() -> None:
    values = MemoryMap()
    saver = Saver(KeyspaceStore(values))
    saver.add(b"flushed")
    saver.save()
    saver.store.flush()
    saver.add(b"-lost")
    saver.save()
    after = KeyspaceStore(values.crash())
    loaded = after.load(0, "test/s")
    assert loaded is not None and loaded[0].tail == 7
    assert after.applied(0).sequence == 1


def test_every_kind_of_key_survives_a_reopening_of_rocksdb_after_a_flush(tmp_path: Path) -> None:
    saver = Saver(KeyspaceStore(RocksMap(tmp_path)))
    saver.state.deadline_us, saver.state.holds = 50, frozenset({"9:a/b"})
    saver.add(bytes(300_000))
    saver.save({"p": (1, 2, 3)})
    saver.store.flush()
    saver.store.close()
    again = KeyspaceStore(RocksMap(tmp_path))
    loaded = again.load(0, "test/s")
    assert loaded is not None and loaded[0].producers == {"p": (1, 2, 3)}
    assert (again.due(0, 100, 10), again.held(0)) == ([(50, "test/s")], ["test/s"])
    assert sum(len(data) for _, data, _ in again.blocks(0, 7, 0, 300_000)) == 300_000
    again.close()


def test_damage_in_rocksdbs_files_is_detected_on_read_and_never_served(tmp_path: Path) -> None:
    saver = Saver(KeyspaceStore(RocksMap(tmp_path)))
    saver.add(bytes(range(256)) * 1000)
    saver.save()
    saver.store.flush()
    saver.store.close()
    largest = max((*tmp_path.glob("*.sst"), *tmp_path.glob("*.blob")), key=lambda file: file.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 3] ^= 0x40
    largest.write_bytes(content)

    def read() -> None:
        store = KeyspaceStore(RocksMap(tmp_path))
        try:
            list(store.blocks(0, 7, 0, 256_000))
        finally:
            store.close()

    with pytest.raises(StoreDamaged):
        read()


def test_a_data_directory_is_held_by_one_process_and_keeps_its_number_of_shards(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path / "data", 8)
    with pytest.raises(DirectoryRefused, match="held by another process"):
        DataDirectory(tmp_path / "data", 8)
    first.release()
    again = DataDirectory(tmp_path / "data", 16)
    assert (again.shards, again.id) == (8, first.id)
    again.release()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"format": 99, "id": "a", "shards": 8, "hash": "crc32"}', "newer version"),
        ('{"format": 1, "id": "a", "shards": 8, "hash": "md5"}', "md5"),
        ('{"format": 1}', "damaged"),
        ("", "damaged"),
    ],
)
def test_a_data_directory_that_is_not_understood_is_refused(
    tmp_path: Path, content: str, reason: str
) -> None:
    (tmp_path / "format.json").write_text(content)
    with pytest.raises(DirectoryRefused, match=reason):
        DataDirectory(tmp_path, 8)


def test_a_directory_with_other_content_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(DirectoryRefused, match=r"thesis\.tex"):
        DataDirectory(tmp_path, 8)


def test_a_first_start_that_was_cut_short_is_begun_again(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "format.json.new").write_text("{")
    directory = DataDirectory(tmp_path, 8)
    assert directory.shards == 8
    directory.release()


def test_a_gap_is_found_though_the_range_begins_inside_it(tmp_path: Path) -> None:
    with opened("memory", tmp_path) as (store, values):
        saver = Saver(store)
        for _ in range(3):
            saver.add(b"x" * 100)
            saver.save()
        batch = values.batch()
        batch.delete(keys.block(0, 7, 100))
        values.write(batch)
        with pytest.raises(StoreDamaged, match="no block holds position 100"):
            saver.blocks(150, 250)
