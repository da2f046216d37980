"""A live reader whose bytes cannot be read is told so, or cut off; it never waits for ever."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream.contracts import StoreDamaged
from millstream.http.live import Live, LiveLimits
from millstream.http.reads import ReadPlan
from millstream.http.request import Head, HeaderBlock

from .harness import JSON, SeededRandom, World, story

KEY = "test/stream"
FAILURES = [StoreDamaged("bits have flipped"), OSError(5, "the disk failed")]


class Told:
    """A reply that only notes what it was told."""

    on_writable: Callable[[], None] | None = None
    on_close: Callable[[], None] | None = None
    writable = True

    def __init__(self) -> None:
        self.status, self.body, self.aborted = 0, b"", False

    def send(self, status: int, headers: bytes, body: bytes = b"") -> None:
        self.status, self.body = status, body

    def begin(self, status: int, headers: bytes, length: int | None) -> None:
        self.status = status

    def write(self, data: bytes) -> None:
        self.body += data

    def end(self) -> None:
        raise AssertionError("this was no clean end")

    def abort(self) -> None:
        self.aborted = True


async def waiting(query: bytes) -> tuple[World, Told]:
    world = World()
    await world.made(KEY, content_type=JSON)
    live = Live(world.engine, world.clock, SeededRandom(1), LiveLimits())
    reply = Told()
    live.read(ReadPlan(Head("GET", b"/", query, HeaderBlock({})), KEY), reply)
    await world.settled()
    return world, reply


def fail(world: World, monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    def fails(*_: object) -> None:
        raise failure

    monkeypatch.setattr(world.engine.reads, "boundary_within", fails)
    monkeypatch.setattr(world.engine.reads, "small", fails)


@pytest.mark.parametrize("failure", FAILURES)
@story
async def test_a_long_poll_is_answered_though_its_bytes_cannot_be_read(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, reply = await waiting(b"offset=-1&live=long-poll&max_bytes=1")
    assert reply.status == 0
    fail(world, monkeypatch, failure)
    await world.appended(KEY, b"[1,2]", content_type=JSON)
    assert reply.status == 500


@pytest.mark.parametrize("failure", FAILURES)
@story
async def test_events_whose_bytes_cannot_be_read_are_cut_off(
    failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, reply = await waiting(b"offset=-1&live=sse")
    fail(world, monkeypatch, failure)
    await world.appended(KEY, b"[1,2]", content_type=JSON)
    assert (reply.status, reply.aborted) == (200, True)
    assert world.entry(KEY).audience is None, "nobody listens any more"


@story
async def test_readers_who_all_stand_elsewhere_do_not_fill_the_memory() -> None:
    world, _ = await waiting(b"offset=-1&live=sse")
    live = Live(world.engine, world.clock, SeededRandom(1), LiveLimits())
    for number in range(100):
        query = b"offset=-1&live=sse&cursor=%d" % (10**9 + number * 1000)
        live.read(ReadPlan(Head("GET", b"/", query, HeaderBlock({})), KEY), Told())
    await world.appended(KEY, b"[1,2]", content_type=JSON)
    audience = world.entry(KEY).audience
    assert audience is not None and len(audience.waiters) == 101
    assert len(audience.shared) <= 16
