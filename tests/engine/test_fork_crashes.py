"""A fork is two steps in two shards; what a crash or a failed commit left between them is finished."""

from __future__ import annotations

import asyncio

import pytest

from millstream.engine import commits
from millstream.protocol.creates import CreateRequest, ForkRequest

from .harness import JSON, Answer, World, key_in, story

SOURCE, FORK = key_in(2), key_in(1)


async def held_without_a_fork() -> tuple[World, World]:
    """A crash after the hold became durable and before the creation did; nothing started yet."""
    world = World()
    await world.made(SOURCE, b"bytes")
    world.journal.shut = True
    world.fork(FORK, SOURCE)
    await world.settled()
    world.journal.let_through()
    await world.settled()
    assert len(world.state(SOURCE).holds) == 1
    return world, world.crash()


@story
async def test_a_hold_whose_fork_never_came_is_released_after_a_crash() -> None:
    _, after = await held_without_a_fork()
    assert len(after.state(SOURCE).holds) == 1
    await after.engine.start()
    await after.settled()
    assert after.state(SOURCE).holds == frozenset()
    await after.delete(SOURCE).success()
    assert after.durable(SOURCE) is None


@story
async def test_the_refusal_is_journalled_in_the_forks_shard_before_the_hold_is_released() -> None:
    _, after = await held_without_a_fork()
    await after.engine.start()
    await after.settled()
    kinds = [kind for _, kind in after.facts()]
    assert kinds.index("HoldRefused") < kinds.index("HoldReleased")


@story
async def test_a_late_creation_with_a_refused_hold_fails() -> None:
    before, after = await held_without_a_fork()
    (hold,) = before.state(SOURCE).holds
    await after.engine.start()
    await after.settled()
    for world in (after, after.crash()):
        assert hold in world.shard(FORK).holds_refused
    await after.flush()
    assert hold in after.crash().shard(FORK).holds_refused


@story
async def test_a_crash_while_reconciling_is_reconciled_again() -> None:
    _, after = await held_without_a_fork()
    await after.engine.start()
    after.journal.shut = True
    await after.settled()
    after.journal.let_through()
    await after.settled()
    again = after.crash()
    await again.engine.start()
    await again.settled()
    assert again.state(SOURCE).holds == frozenset()


@story
async def test_a_hold_whose_fork_lives_stays_after_a_crash() -> None:
    world = World()
    await world.made(SOURCE, b"bytes")
    await world.fork(FORK, SOURCE).success()
    for flush in (False, True):
        if flush:
            await world.flush()
        after = world.crash()
        await after.engine.start()
        await after.settled()
        assert len(after.state(SOURCE).holds) == 1
        await after.delete(SOURCE).success()
        assert after.read(FORK) == b"bytes"


@story
async def test_a_crash_between_a_forks_deletion_and_its_release_is_finished() -> None:
    world = World()
    await world.made(SOURCE, b"bytes")
    await world.fork(FORK, SOURCE).success()
    await world.delete(SOURCE).success()
    world.journal.shut = True
    world.delete(FORK)
    await world.settled()
    world.journal.let_through()
    await world.settled()
    after = world.crash()
    assert after.durable(FORK) is None and after.durable(SOURCE) is not None
    await after.engine.start()
    await after.settled()
    assert after.durable(SOURCE) is None


@story
async def test_a_fork_whose_creation_fails_releases_its_hold() -> None:
    world = World()
    await world.made(SOURCE, b"bytes")
    with world.gate() as journal:
        fork = world.fork(FORK, SOURCE)
        await world.settled()
        journal.let_through()
        await world.settled()
        journal.lose()
        assert await fork.code() == "not_applied"
    await world.settled()
    assert world.durable(FORK) is None
    assert world.state(SOURCE).holds == frozenset()


@story
async def test_a_fork_whose_creation_fails_beside_its_source_releases_its_hold() -> None:
    """The source's shard has a record in the same commit that fails."""
    world = World()
    await world.made(SOURCE, b"bytes")
    with world.gate() as journal:
        fork = world.fork(FORK, SOURCE)
        await world.settled()
        journal.let_through()
        await asyncio.sleep(0)
        world.append(SOURCE, b"more")
        await world.settled()
        assert journal.standing is not None
        journal.lose()
        assert await fork.code() == "not_applied"
    await world.settled()
    assert world.state(SOURCE).holds == frozenset()


@story
async def test_a_fork_with_an_unknown_outcome_that_is_found_keeps_its_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commits, "RESOLVE_SECONDS_MAX", 0.0)
    monkeypatch.setattr(commits, "REOPEN_WAIT_SECONDS", 0.01)
    world = World()
    await world.made(SOURCE, b"bytes")
    with world.gate() as journal:
        fork = world.fork(FORK, SOURCE)
        await world.settled()
        journal.let_through()
        await world.settled()
        journal.reopens = False
        journal.lose_the_news()
        assert await fork.code() == "outcome_unknown"
        journal.reopens = True
        await asyncio.sleep(0.05)
    await world.appended(SOURCE, b"-later")
    await world.settled()
    assert world.read(FORK) == b"bytes"
    await world.delete(SOURCE).success()
    assert world.read(FORK) == b"bytes", "the fork lives: its source's bytes stay"


@pytest.mark.parametrize("again", [False, True])
@story
async def test_a_source_that_ends_while_the_forks_body_is_flattened_is_not_forked(
    again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.engine.bodies.SLICE_BYTES", 10)
    world = World()
    await world.made(SOURCE, b"[1,2]", content_type=JSON)
    body = b"[" + b",".join([b"3"] * 20) + b"]"
    answer = Answer()
    world.engine.create(FORK, CreateRequest(fork=ForkRequest(SOURCE, None, None)), body, answer)
    with world.gate():
        deleted = world.delete(SOURCE)
        if again:
            world.create(SOURCE, b"[4]", content_type=JSON)
        await asyncio.sleep(0.05)
    await deleted.success()
    if not again:
        assert await answer.code() == "source_not_found"
        assert world.durable(FORK) is None
    else:
        await answer.success()
        assert world.read(FORK) == b"4," + b"3," * 20
        assert len(world.state(SOURCE).holds) == 1


@story
async def test_a_release_that_fails_is_tried_again() -> None:
    world = World()
    await world.made(SOURCE, b"bytes")
    await world.fork(FORK, SOURCE).success()
    await world.delete(SOURCE).success()
    with world.gate() as journal:
        deleted = world.delete(FORK)
        await world.settled()
        journal.let_through()
        await deleted.success()
        await world.settled()
        journal.lose()
        await world.settled()
    await world.settled()
    assert world.durable(SOURCE) is None, "it lived for its fork only"
