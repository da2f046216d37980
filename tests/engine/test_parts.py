"""Bodies larger than a record travel ahead of their append and are never seen in part (§5)."""

from __future__ import annotations

import asyncio
import random

import pytest

from millstream.engine import commits
from millstream.protocol.records import RECORD_BYTES_MAX

from .harness import JSON, World, small_checkpoints, story

KEY = "test/stream"
BODY = random.Random(3).randbytes(3 << 20)


@story
async def test_a_body_of_3_mib_is_never_visible_in_part() -> None:
    world = World()
    await world.made(KEY, b"head-")
    world.journal.shut = True
    answer = world.append(KEY, BODY, ("p", 0, 0))
    steps = 0
    while answer.pending:
        await world.settled()
        assert world.state(KEY).tail == 5 and world.read(KEY) == b"head-"
        world.journal.let_through()
        await world.settled()
        steps += 1
    assert steps == 7, "six Parts of 512 KiB, then the append"
    assert world.read(KEY) == b"head-" + BODY
    assert (await answer.success()).status == 200


@story
async def test_a_large_body_survives_replay_in_every_state_of_the_store() -> None:
    world = World()
    await world.made(KEY, BODY)
    await world.appended(KEY, BODY[::-1])
    assert world.crash().read(KEY) == BODY + BODY[::-1]
    world.save()
    assert world.crash().read(KEY) == BODY + BODY[::-1]
    await world.flush()
    assert world.crash().read(KEY) == BODY + BODY[::-1]


@story
async def test_a_crash_at_any_step_of_a_large_append_leaves_none_or_all_of_it() -> None:
    world = World()
    await world.made(KEY)
    world.journal.shut = True
    answer = world.append(KEY, BODY)
    while answer.pending:
        await world.settled()
        assert world.crash().read(KEY) == b""
        world.journal.let_through()
        await world.settled()
    assert world.crash().read(KEY) == BODY


@story
async def test_a_checkpoint_between_the_parts_and_their_append_keeps_them_in_the_journal() -> None:
    world = World()
    await world.made(KEY)
    world.journal.shut = True
    answer = world.append(KEY, BODY)
    for _ in range(6):
        await world.settled()
        world.journal.let_through()
        await world.settled()
    await world.flush()
    world.journal.shut = False
    world.journal.let_through()
    await answer.success()
    assert world.crash().read(KEY) == BODY, "the flushed checkpoint is older than the append"


@story
async def test_parts_of_an_older_epoch_without_an_append_are_dropped() -> None:
    world = World()
    await world.made(KEY)
    world.journal.shut = True
    world.append(KEY, BODY)
    await world.settled()
    world.journal.let_through()
    await world.settled()
    after = world.crash()
    assert after.shard(KEY).parts == {}
    await after.appended(KEY, b"small")
    await after.flush()
    assert after.journal.records == [], "they do not hold back trimming"
    assert after.read(KEY) == b"small"


@story
async def test_a_large_append_is_decided_when_its_parts_are_there() -> None:
    world = World()
    await world.made(KEY)
    large = world.append(KEY, BODY)
    await world.appended(KEY, b"in between")
    await large.success()
    assert world.read(KEY) == b"in between" + BODY
    late = world.append(KEY, BODY)
    await world.appended(KEY, b"", closes=True)
    assert await late.code() == "stream_closed"
    assert world.shard(KEY).parts == {}, "the refused body is dropped"


@story
async def test_a_large_body_whose_commit_fails_is_dropped() -> None:
    world = World()
    await world.made(KEY)
    with world.gate() as journal:
        lost = world.append(KEY, BODY)
        await world.settled()
        journal.lose()
        assert await lost.code() == "not_applied"
    assert world.shard(KEY).parts == {}
    assert world.engine._context.large_bytes == 0
    await world.appended(KEY, BODY)
    assert world.read(KEY) == BODY


async def _stand_before_the_append(world: World) -> None:
    for _ in range(6):
        await world.settled()
        world.journal.let_through()
        await world.settled()


@story
async def test_parts_whose_append_is_lost_do_not_hold_back_trimming() -> None:
    world = World()
    await world.made(KEY)
    with world.gate() as journal:
        lost = world.append(KEY, BODY)
        await _stand_before_the_append(world)
        journal.lose()
        assert await lost.code() == "not_applied"
    await world.flush()
    assert world.journal.records == []


@story
async def test_a_part_found_after_its_request_was_answered_does_not_hold_back_trimming(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commits, "RESOLVE_SECONDS_MAX", 0.0)
    monkeypatch.setattr(commits, "REOPEN_WAIT_SECONDS", 0.01)
    world = World()
    await world.made(KEY)
    with world.gate() as journal:
        upload = world.append(KEY, BODY)
        await world.settled()
        journal.reopens = False
        journal.lose_the_news()
        assert await upload.code() == "outcome_unknown"
        journal.reopens = True
        await asyncio.sleep(0.05)
    await world.flush()
    assert world.journal.records == []


@story
async def test_message_ends_travel_with_the_parts() -> None:
    world = World(small_checkpoints(memory_bytes=0))
    messages = [b'"%s"' % (b"x" * (n % 90_000)) for n in range(10_000, 3_000_000, 70_001)]
    await world.made(KEY, content_type=JSON)
    await world.appended(KEY, b"[" + b",".join(messages) + b"]", content_type=JSON)
    ends, at = [], 0
    for message in messages:
        at += len(message) + 1
        ends.append(at)
    assert world.ends(KEY) == ends
    assert world.crash().ends(KEY) == ends
    await world.flush()
    assert world.ends(KEY) == ends
    assert world.crash().ends(KEY) == ends


@story
async def test_no_record_is_larger_than_1_mib_however_large_the_bodies() -> None:
    world = World()
    await world.made(KEY)
    for size in (100_000, 400_000, 520_000):
        for answer in [world.append(KEY, bytes(size)) for _ in range(7)]:
            await answer.success()
    await world.appended(KEY, BODY)
    assert RECORD_BYTES_MAX // 2 < world.journal.largest <= RECORD_BYTES_MAX + 4096


@story
async def test_no_record_is_larger_than_1_mib_however_many_messages() -> None:
    world = World()
    await world.made(KEY, content_type=JSON)
    await world.appended(KEY, b"[" + b"1," * 240_000 + b"1]", content_type=JSON)
    assert world.journal.largest <= RECORD_BYTES_MAX + 4096


@story
async def test_no_record_is_larger_than_1_mib_however_long_the_names() -> None:
    world = World()
    answers = [
        world.create(f"test/{number:0200d}", content_type="a/" + "b" * 200) for number in range(20_000)
    ]
    for answer in answers:
        await answer.success()
    assert world.journal.largest <= RECORD_BYTES_MAX + 4096
