"""Disks that fail: nothing is tried again on a segment, and "not applied" stays true for ever (§6)."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from millstream.contracts import CommitUnknown
from millstream.journal import SegmentJournal

from .journals import HEADER, SHARDS, Chain, Disk, committed, files, found, outcome, overwrite, segments


async def failed(journal: SegmentJournal, body: bytes) -> None:
    assert isinstance(await outcome(journal, [Chain(journal).next(0, body)]), CommitUnknown)


async def one_lost(directory: Path, disk: Disk) -> SegmentJournal:
    """b"kept" is durable; b"lost" was written whole, its sync failed, and the journal was reopened."""
    journal = segments(directory, disk)
    await committed(journal, (0, b"kept"))
    disk.syncs_fail_in = 1
    await failed(journal, b"lost")
    await journal.reopen()
    return journal


async def reread(directory: Path) -> list[bytes]:
    journal = segments(directory)
    bodies = found(journal)
    await journal.close()
    return bodies


def test_success_is_told_after_the_sync(tmp_path: Path) -> None:
    async def story() -> None:
        disk = Disk()
        journal = segments(tmp_path, disk)
        for _ in range(3):
            before = disk.syncs
            await committed(journal, (0, b"x"))
            assert disk.syncs == before + 1
        await journal.close()

    asyncio.run(story())


@pytest.mark.parametrize("torn_at", [None, 10, 60])
def test_a_failed_write_is_never_found(tmp_path: Path, torn_at: int | None) -> None:
    async def story() -> None:
        disk = Disk()
        journal = segments(tmp_path, disk)
        await committed(journal, (0, b"kept"))
        disk.writes_fail_in, disk.torn_at = 1, torn_at
        await failed(journal, b"lost")
        await journal.reopen()
        await committed(journal, (0, b"after"))
        await journal.close()
        assert await reread(tmp_path) == [b"kept", b"after"]

    asyncio.run(story())


def test_a_frame_that_was_written_and_not_synced_is_never_found(tmp_path: Path) -> None:
    async def story() -> None:
        journal = await one_lost(tmp_path, Disk())
        assert found(journal) == [b"kept"]
        await journal.close()
        for _ in range(3):
            assert await reread(tmp_path) == [b"kept"]

    asyncio.run(story())


def test_what_stands_behind_the_last_confirmed_frame_may_be_damaged(tmp_path: Path) -> None:
    async def story() -> None:
        journal = await one_lost(tmp_path, Disk())
        await committed(journal, (0, b"after"))
        await journal.close()
        overwrite(files(tmp_path)[0], HEADER + 90, b"\xff" * 40)
        assert await reread(tmp_path) == [b"kept", b"after"]

    asyncio.run(story())


def test_a_segment_on_which_a_sync_failed_is_not_written_again(tmp_path: Path) -> None:
    async def story() -> None:
        journal = await one_lost(tmp_path, Disk())
        before = files(tmp_path)[0].read_bytes()
        await committed(journal, (0, b"after"))
        assert files(tmp_path)[0].read_bytes() == before
        assert len(files(tmp_path)) == 2
        await journal.close()

    asyncio.run(story())


def test_the_skipped_sequence_stays_skipped_after_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        journal = await one_lost(tmp_path, Disk())
        await journal.close()
        again = segments(tmp_path)
        assert again.tail(0).sequence == 1
        assert again.tail(0).next_sequence == 3
        await again.close()

    asyncio.run(story())


def test_a_reopen_that_fails_leaves_the_journal_broken_and_can_be_repeated(tmp_path: Path) -> None:
    async def story() -> None:
        disk = Disk()
        journal = segments(tmp_path, disk)
        await committed(journal, (0, b"kept"))
        disk.syncs_fail_in = 1
        await failed(journal, b"lost")
        disk.syncs_fail_in = 1
        with pytest.raises(OSError, match="sync failed"):
            await journal.reopen()
        await failed(journal, b"too early")
        await journal.reopen()
        await committed(journal, (0, b"after"))
        await journal.close()
        assert await reread(tmp_path) == [b"kept", b"after"]

    asyncio.run(story())


def test_a_rollover_that_fails_loses_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        disk = Disk()
        journal = segments(tmp_path, disk)
        await committed(journal, (0, bytes(50_000)))
        disk.syncs_fail_in = 1
        await failed(journal, bytes(50_001))
        await journal.reopen()
        await committed(journal, (0, b"after"))
        await journal.close()
        assert await reread(tmp_path) == [bytes(50_000), b"after"]

    asyncio.run(story())


def test_a_crash_while_an_unused_segment_is_replaced_does_not_bring_back_what_was_refused(
    tmp_path: Path,
) -> None:
    """The header of the trailing, unused segment is all that says that b"lost" is void."""

    async def story() -> None:
        await (await one_lost(tmp_path, Disk())).close()
        disk = Disk()
        disk.syncs_fail_in = 1
        with pytest.raises(OSError, match="sync failed"):
            segments(tmp_path, disk)
        assert await reread(tmp_path) == [b"kept"]

    asyncio.run(story())


def test_a_crash_at_any_file_operation_of_a_start_does_not_bring_back_what_was_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies of the directory after each unlink and rename of a start are opened, one by one."""
    directory = tmp_path / "journal"

    async def story() -> None:
        await (await one_lost(directory, Disk())).close()
        snapshots: list[Path] = []

        def snapshot() -> None:
            copy = tmp_path / f"copy{len(snapshots)}"
            shutil.copytree(directory, copy)
            snapshots.append(copy)

        unlink, rename = Path.unlink, Path.rename

        def noted_unlink(path: Path, missing_ok: bool = False) -> None:
            unlink(path, missing_ok=missing_ok)
            snapshot()

        def noted_rename(path: Path, target: Path) -> Path:
            result = rename(path, target)
            snapshot()
            return result

        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", noted_unlink)
            patch.setattr(Path, "rename", noted_rename)
            journal = SegmentJournal(directory, SHARDS, segment_bytes=64 << 10)
            await journal.close()
        assert snapshots
        for copy in snapshots:
            assert await reread(copy) == [b"kept"], copy.name

    asyncio.run(story())


def test_a_spare_that_is_taken_while_it_is_looked_for_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks whether it exists is told so, and finds it gone."""
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda path: path.name == "spare" or exists(path))

    async def story() -> None:
        journal = segments(tmp_path)
        for _ in range(3):
            await committed(journal, (0, bytes(50_000)))
        assert journal._preparer.is_alive()
        await journal.close()

    asyncio.run(story())
