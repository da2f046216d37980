"""Trimming and rollover on a disk that refuses: no gap between the files, and no room kept for nothing."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import pytest

from .journals import committed, files, segments
from .test_segment_failures import failed, reread


def test_a_file_that_cannot_be_removed_keeps_those_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gap between the files would refuse the next start."""

    def refused(path: Path, missing_ok: bool = False) -> None:
        if path == files(tmp_path)[0]:
            raise OSError(5, "not removed")
        os.unlink(path)

    async def story() -> None:
        journal = segments(tmp_path)
        for _ in range(4):
            await committed(journal, (0, bytes(50_000)))
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", refused)
            with pytest.raises(OSError, match="not removed"):
                journal.trim([4, 0, 0])
            with suppress(OSError):
                journal.trim([4, 0, 0])
        await journal.close()
        assert await reread(tmp_path) == [bytes(50_000)] * 4

    asyncio.run(story())


def test_a_segment_for_which_there_was_no_room_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        journal = segments(tmp_path)
        await committed(journal, (0, b"kept"))

        def half(path: Path, size: int) -> None:
            path.write_bytes(bytes(size // 2))
            raise OSError(28, "no space left")

        with monkeypatch.context() as patch:
            patch.setattr("millstream.journal.segments._make_zeroed", half)
            await failed(journal, bytes(70_000))
        assert not (tmp_path / "next").exists()
        await journal.reopen()
        await committed(journal, (0, b"after"))
        await journal.close()
        assert await reread(tmp_path) == [b"kept", b"after"]

    asyncio.run(story())


def test_what_a_flush_has_covered_counts_no_more_though_its_segment_is_in_use(tmp_path: Path) -> None:
    """Or a segment larger than the journal may grow would stop appends for ever."""

    async def story() -> None:
        journal = segments(tmp_path)
        await committed(journal, (0, bytes(20_000)), (1, b"x"))
        assert journal.bytes_held() >= 20_000
        journal.trim([2, 1, 1])
        assert journal.bytes_held() >= 20_000, "shard 1 still needs it"
        journal.trim([2, 2, 1])
        assert journal.bytes_held() == 0
        await committed(journal, (0, bytes(1000)))
        assert 1000 <= journal.bytes_held() < 2000
        await journal.close()
        assert await reread(tmp_path) == [bytes(20_000), b"x", bytes(1000)]

    asyncio.run(story())


def test_a_frame_that_cannot_be_made_fails_its_commit_and_no_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        journal = segments(tmp_path)
        await committed(journal, (0, b"kept"))

        def no_memory(*_: object) -> None:
            raise MemoryError

        with monkeypatch.context() as patch:
            patch.setattr(journal, "_write_frame", no_memory)
            await failed(journal, b"lost")
        await journal.reopen()
        await committed(journal, (0, b"after"))
        await journal.close()
        assert await reread(tmp_path) == [b"kept", b"after"]

    asyncio.run(story())
