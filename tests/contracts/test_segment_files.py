"""Segments on disk: rollover, trimming, torn and damaged frames, what a user can write (§6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from millstream.journal import JournalDamaged, ReadOnlyJournal
from millstream.journal.frames import encode_frame
from millstream.journal.recovery import recover

from .journals import (
    HEADER,
    SEGMENT_BYTES,
    SHARDS,
    Chain,
    committed,
    files,
    found,
    frame_bytes,
    overwrite,
    segments,
)


def on_loop(test: Callable[[Path], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
    @wraps(test)
    def run(tmp_path: Path) -> None:
        asyncio.run(asyncio.wait_for(test(tmp_path), 20))

    return run


async def filled(directory: Path, *bodies: bytes) -> None:
    """A journal with one frame per body in shard 0, closed again."""
    journal = segments(directory)
    for body in bodies:
        await committed(journal, (0, body))
    await journal.close()


async def reread(directory: Path) -> list[bytes]:
    journal = segments(directory)
    try:
        return found(journal)
    finally:
        await journal.close()


@on_loop
async def test_full_segments_roll_over_and_everything_is_read_in_order(tmp_path: Path) -> None:
    bodies = [bytes([number]) * 20_000 for number in range(10)]
    await filled(tmp_path, *bodies)
    assert len(files(tmp_path)) == 4
    assert all(path.stat().st_size == SEGMENT_BYTES for path in files(tmp_path))
    assert await reread(tmp_path) == bodies


@on_loop
async def test_a_frame_larger_than_a_segment_gets_a_segment_of_its_size(tmp_path: Path) -> None:
    bodies = [b"small", bytes(3 * SEGMENT_BYTES), b"small again"]
    await filled(tmp_path, *bodies)
    assert await reread(tmp_path) == bodies


@on_loop
async def test_trimming_unlinks_whole_segments_and_never_the_one_in_use(tmp_path: Path) -> None:
    journal = segments(tmp_path)
    for _ in range(10):
        await committed(journal, (0, bytes(20_000)))
    journal.trim([7, 1, 1])
    assert [path.name for path in files(tmp_path)] == ["000000000003.seg", "000000000004.seg"]
    journal.trim([1 << 50, 1, 1])
    assert [path.name for path in files(tmp_path)] == ["000000000004.seg"]
    await journal.close()
    assert len(await reread(tmp_path)) == 1


@on_loop
async def test_a_segment_is_kept_for_the_shard_that_still_needs_it(tmp_path: Path) -> None:
    journal = segments(tmp_path)
    await committed(journal, (0, bytes(50_000)), (1, b"needed"))
    for _ in range(4):
        await committed(journal, (0, bytes(50_000)))
    journal.trim([1 << 50, 1, 1])
    assert b"needed" in found(journal)
    journal.trim([1 << 50, 2, 1])
    assert b"needed" not in found(journal)
    await journal.close()


@pytest.mark.parametrize("kept", [1, 20, 39, 60, -1])
def test_a_torn_last_frame_is_cut(tmp_path: Path, kept: int) -> None:
    asyncio.run(filled(tmp_path, b"first", b"second" * 10))
    end = HEADER + frame_bytes(5) + frame_bytes(60)
    torn = HEADER + frame_bytes(5) + kept if kept > 0 else end - 1
    overwrite(files(tmp_path)[0], torn, bytes(end - torn))
    if kept < 0:
        overwrite(files(tmp_path)[0], torn, b"\xff")
    assert asyncio.run(reread(tmp_path)) == [b"first"]
    asyncio.run(filled(tmp_path, b"third"))
    assert asyncio.run(reread(tmp_path)) == [b"first", b"third"]


@pytest.mark.parametrize("at", [0, 4, 12, 30, 45, 70, 78])
def test_a_damaged_frame_before_an_intact_one_refuses_with_the_place(tmp_path: Path, at: int) -> None:
    asyncio.run(filled(tmp_path, b"first", b"second", b"third"))
    path = files(tmp_path)[0]
    place = HEADER + frame_bytes(5)
    flipped = path.read_bytes()[place + at] ^ 0x10
    overwrite(path, place + at, bytes([flipped]))
    with pytest.raises(JournalDamaged, match=f"{path.name}.*byte {place}"):
        segments(tmp_path)
    with pytest.raises(JournalDamaged):
        ReadOnlyJournal(tmp_path, SHARDS)
    assert path.exists(), "nothing is cut or thrown away"


@on_loop
async def test_a_damaged_frame_in_an_older_segment_refuses_though_nothing_follows_in_it(
    tmp_path: Path,
) -> None:
    await filled(tmp_path, bytes(50_000), bytes(50_000))
    older = files(tmp_path)[0]
    overwrite(older, HEADER + 1000, b"\x01")
    with pytest.raises(JournalDamaged, match=older.name):
        segments(tmp_path)


@on_loop
async def test_a_missing_segment_refuses(tmp_path: Path) -> None:
    await filled(tmp_path, *[bytes(50_000)] * 3)
    files(tmp_path)[1].unlink()
    with pytest.raises(JournalDamaged, match="missing"):
        segments(tmp_path)


@on_loop
async def test_a_damaged_header_refuses_when_frames_stand_behind_it(tmp_path: Path) -> None:
    await filled(tmp_path, b"acknowledged")
    overwrite(files(tmp_path)[0], 20, b"\xff")
    with pytest.raises(JournalDamaged, match="header"):
        segments(tmp_path)


@on_loop
async def test_a_newer_format_is_refused_and_named(tmp_path: Path) -> None:
    await filled(tmp_path, b"x")
    overwrite(files(tmp_path)[0], 8, b"\x63\0\0\0")
    with pytest.raises(JournalDamaged, match=r"newer.*99"):
        segments(tmp_path)


@on_loop
async def test_another_number_of_shards_is_refused(tmp_path: Path) -> None:
    await filled(tmp_path, b"x")
    with pytest.raises(JournalDamaged, match="3 shards, not 4"):
        recover(tmp_path, 4)


@on_loop
async def test_a_segment_whose_header_never_became_durable_is_no_segment(tmp_path: Path) -> None:
    await filled(tmp_path, b"x")
    (tmp_path / "000000000002.seg").write_bytes(bytes(SEGMENT_BYTES))
    assert await reread(tmp_path) == [b"x"]


@on_loop
async def test_user_bytes_that_look_like_a_frame_are_none(tmp_path: Path) -> None:
    """Not a frame of another segment, nor one of this very segment that is inside a torn frame."""
    journal = segments(tmp_path)
    record = Chain(journal).next(0, b"forged")
    await committed(journal, (0, encode_frame(12345, 1, [record]) * 3))
    await committed(journal, (0, b"last" + encode_frame(999, 2, [record])))
    await journal.close()
    assert len(found(ReadOnlyJournal(tmp_path, SHARDS))) == 2
    end = HEADER + frame_bytes(len(encode_frame(1, 1, [record])) * 3)
    overwrite(files(tmp_path)[0], end, bytes(8))  # the last frame's own head is torn
    assert len(await reread(tmp_path)) == 1


@on_loop
async def test_restarts_without_a_commit_do_not_pile_up_files(tmp_path: Path) -> None:
    for _ in range(5):
        await filled(tmp_path)
    assert len(files(tmp_path)) == 2
    await filled(tmp_path, b"x")
    for _ in range(5):
        await filled(tmp_path)
    assert len(files(tmp_path)) == 3
    assert await reread(tmp_path) == [b"x"]


@on_loop
async def test_a_read_only_journal_reads_the_same_and_changes_nothing(tmp_path: Path) -> None:
    await filled(tmp_path, b"one", b"two")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert found(ReadOnlyJournal(tmp_path, SHARDS)) == [b"one", b"two"]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
