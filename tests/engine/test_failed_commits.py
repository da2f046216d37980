"""A commit that fails, or whose outcome is unknown for a while (ARCHITECTURE §5)."""

from __future__ import annotations

import asyncio

import pytest

from millstream.engine import commits

from .harness import World, key_in, story

KEY = "test/stream"


@pytest.fixture(autouse=True)
def reopen_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "REOPEN_WAIT_SECONDS", 0.01)


@story
async def test_a_failed_commit_leaves_the_durable_state_as_it_was() -> None:
    world = World()
    await world.made(KEY, b"kept")
    await world.appended(KEY, b"1", ("p", 0, 0))
    before = world.picture(KEY, "test/new")
    with world.gate() as journal:
        failing = [
            world.append(KEY, b"2", ("p", 0, 1), stream_seq="a"),
            world.append(KEY, b"", closes=True),
            world.create("test/new"),
        ]
        await world.settled()
        journal.lose()
        for answer in failing:
            assert await answer.code() == "not_applied"
    assert world.picture(KEY, "test/new") == before


@story
async def test_after_a_failed_commit_appends_work_and_a_producer_goes_on() -> None:
    world = World()
    await world.made(KEY)
    await world.appended(KEY, b"0", ("p", 0, 0))
    with world.gate() as journal:
        lost = world.append(KEY, b"1", ("p", 0, 1))
        await world.settled()
        journal.lose()
        assert await lost.code() == "not_applied"
    assert (await world.appended(KEY, b"1", ("p", 0, 1))).status == 200
    assert (await world.appended(KEY, b"2", ("p", 0, 2))).status == 200
    assert world.read(KEY) == b"012"
    after = world.crash()
    assert after.read(KEY) == b"012"


@story
async def test_what_was_decided_behind_a_failed_commit_fails_too() -> None:
    world = World()
    await world.made(KEY)
    with world.gate() as journal:
        first = world.append(KEY, b"1")
        await world.settled()
        behind = world.append(KEY, b"2")
        await world.settled()
        journal.lose()
        assert await first.code() == await behind.code() == "not_applied"
    assert world.read(KEY) == b""


@story
async def test_a_failed_commit_skips_its_sequence() -> None:
    world = World()
    await world.made(KEY)
    with world.gate() as journal:
        lost = world.append(KEY, b"1")
        await world.settled()
        assert journal.standing is not None
        sequence = journal.standing[0][0].sequence
        journal.lose()
        await lost.outcome()
    await world.appended(KEY, b"1")
    assert all(record.sequence != sequence for record in world.journal.records)
    assert world.journal.records[-1].sequence > sequence


@story
async def test_an_unknown_outcome_that_is_found_gives_normal_answers() -> None:
    world = World()
    await world.made(KEY)
    with world.gate() as journal:
        found = world.append(KEY, b"1", ("p", 0, 0))
        again = world.append(KEY, b"1", ("p", 0, 0))
        await world.settled()
        behind = world.append(KEY, b"2", ("p", 0, 1))
        journal.lose_the_news()
        assert (await found.success()).status == 200
        assert (await again.success()).status == 204
        assert await behind.code() == "not_applied"
    assert world.read(KEY) == b"1"
    await world.appended(KEY, b"2", ("p", 0, 1))
    assert world.crash().read(KEY) == b"12"


@story
async def test_reads_go_on_and_writes_wait_until_the_journal_is_reopened() -> None:
    world = World()
    await world.made(KEY, b"seen")
    with world.gate() as journal:
        lost = world.append(KEY, b"x")
        await world.settled()
        journal.reopens = False
        journal.lose()
        await asyncio.sleep(0.03)
        assert lost.pending
        assert world.read(KEY) == b"seen"
        assert await world.look(KEY).code() == "ok"
        waiting = world.append(KEY, b"y")
        journal.shut, journal.reopens = False, True
        assert await lost.code() == "not_applied"
        await waiting.success()
    assert world.read(KEY) == b"seeny"


@story
async def test_past_the_deadline_the_outcome_is_told_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "RESOLVE_SECONDS_MAX", 0.0)
    world = World()
    await world.made(KEY)
    with world.gate() as journal:
        append = world.append(KEY, b"x", ("p", 0, 0))
        await world.settled()
        journal.reopens = False
        journal.lose_the_news()
        outcome = await append.outcome()
        assert outcome.code == "outcome_unknown" and outcome.maybe_applied
        journal.reopens = True
    await asyncio.sleep(0.05)
    assert (await world.appended(KEY, b"x", ("p", 0, 0))).status == 204, "the retry finds it"
    assert world.read(KEY) == b"x"


@story
async def test_shards_whose_commits_failed_together_go_on_together() -> None:
    world = World()
    keys = [key_in(shard) for shard in range(4)]
    for key in keys:
        await world.made(key)
    with world.gate() as journal:
        lost = [world.append(key, b"lost") for key in keys]
        await world.settled()
        journal.lose()
        assert [await answer.code() for answer in lost] == ["not_applied"] * 4
    for key in keys:
        await world.appended(key, b"kept")
    assert {world.crash().read(key) for key in keys} == {b"kept"}


@story
async def test_an_expiry_found_while_the_journal_is_broken_is_not_stuck() -> None:
    """The sweep runs while a commit of another shard is being resolved."""
    world = World()
    mortal, other = key_in(0), key_in(1)
    await world.made(mortal, ttl_seconds=10)
    await world.made(other)
    world.clock.advance(11)
    with world.gate() as journal:
        world.append(other, b"x")
        await world.settled()
        journal.reopens = False
        journal.lose()
        await world.settled()
        world.engine._expiry.sweep()
        journal.reopens = True
        await asyncio.sleep(0.05)
        journal.shut = False
        assert await world.look(mortal).code() == "stream_not_found"
