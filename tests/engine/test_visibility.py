"""Invariant 2: nobody sees bytes, closure or a refusal that a crash could undo."""

from __future__ import annotations

from millstream.engine import Entry

from .harness import World, story

KEY = "test/stream"


class Recorder:
    """A live reader that notes what was durable when it was woken."""

    def __init__(self) -> None:
        self.tails: list[int | None] = []

    def wake(self, entry: Entry) -> None:
        self.tails.append(None if entry.durable is None else entry.durable.tail)


@story
async def test_a_stream_is_not_there_before_its_creation_is_durable() -> None:
    world = World()
    with world.gate() as journal:
        created = world.create(KEY, b"first")
        seen = world.look(KEY)
        await world.settled()
        assert created.pending
        assert await seen.code() == "stream_not_found"
        journal.let_through()
        assert (await created.success()).status == 201
    assert world.read(KEY) == b"first"


@story
async def test_appended_bytes_are_not_read_before_they_are_durable() -> None:
    world = World()
    await world.made(KEY, b"old")
    with world.gate() as journal:
        append = world.append(KEY, b"new")
        await world.settled()
        assert append.pending
        assert world.read(KEY) == b"old"
        journal.let_through()
        await append.success()
    assert world.read(KEY) == b"oldnew"


@story
async def test_waiters_are_woken_once_per_commit_and_see_what_is_durable() -> None:
    world = World()
    await world.made(KEY)
    reader = Recorder()
    world.engine.watch(world.entry(KEY), reader)
    with world.gate() as journal:
        world.append(KEY, b"ab")
        await world.settled()
        assert reader.tails == []
        journal.let_through()
        await world.settled()
        assert set(reader.tails) == {2}
    world.engine.unwatch(world.entry(KEY), reader)
    await world.appended(KEY, b"c")
    assert set(reader.tails) == {2}


@story
async def test_a_waiter_sees_the_tail_before_the_writer_hears_of_it() -> None:
    world = World()
    await world.made(KEY)
    order: list[str] = []

    class Reader:
        def wake(self, entry: Entry) -> None:
            order.append("reader")

    world.engine.watch(world.entry(KEY), Reader())
    answer = world.append(KEY, b"x")
    await answer.success()
    assert order == ["reader"]


@story
async def test_a_duplicate_of_an_append_in_flight_waits_for_it_and_fails_with_it() -> None:
    world = World()
    await world.made(KEY)
    with world.gate() as journal:
        first = world.append(KEY, b"x", ("p", 0, 0))
        again = world.append(KEY, b"x", ("p", 0, 0))
        await world.settled()
        assert again.pending
        journal.lose()
        assert await first.code() == await again.code() == "not_applied"
    retry = await world.appended(KEY, b"x", ("p", 0, 0))
    assert retry.status == 200
    assert world.read(KEY) == b"x"


@story
async def test_a_duplicate_of_an_append_in_flight_is_answered_when_that_is_durable() -> None:
    world = World()
    await world.made(KEY)
    with world.gate() as journal:
        first = world.append(KEY, b"x", ("p", 0, 0))
        again = world.append(KEY, b"x", ("p", 0, 0))
        await world.settled()
        journal.let_through()
        assert (await first.success()).status == 200
        assert (await again.success()).status == 204
    assert world.read(KEY) == b"x"


@story
async def test_refusals_drawn_from_speculative_state_wait_and_fail_with_it() -> None:
    world = World()
    await world.made(KEY)
    with world.gate() as journal:
        world.append(KEY, b"", closes=True)
        on_closed = world.append(KEY, b"late")
        gap = world.append(KEY, b"late", ("p", 0, 5))
        await world.settled()
        assert on_closed.pending and gap.pending
        journal.lose()
        assert await on_closed.code() == await gap.code() == "not_applied"
    await world.appended(KEY, b"open after all")


@story
async def test_a_refusal_of_a_closed_stream_is_told_when_the_closure_is_durable() -> None:
    world = World()
    await world.made(KEY)
    with world.gate() as journal:
        world.append(KEY, b"", closes=True)
        late = world.append(KEY, b"late")
        await world.settled()
        assert late.pending
        journal.let_through()
        assert await late.code() == "stream_closed"


@story
async def test_a_repeated_creation_in_flight_waits_for_the_first() -> None:
    world = World()
    with world.gate() as journal:
        first, same = world.create(KEY), world.create(KEY)
        other = world.create(KEY, content_type="text/plain")
        await world.settled()
        assert first.pending and same.pending and other.pending
        journal.lose()
        codes = {await answer.code() for answer in (first, same, other)}
        assert codes == {"not_applied"}
    assert world.durable(KEY) is None
    await world.made(KEY, content_type="text/plain")


@story
async def test_a_deletion_in_flight_is_not_seen_and_what_rests_on_it_waits() -> None:
    world = World()
    await world.made(KEY, b"kept")
    with world.gate() as journal:
        deleted = world.delete(KEY)
        again, append, recreated = world.delete(KEY), world.append(KEY, b"x"), world.create(KEY)
        await world.settled()
        assert deleted.pending and again.pending and append.pending and recreated.pending
        assert isinstance(await world.look(KEY).outcome(), Entry), "readers see the durable state"
        journal.lose()
        for answer in (deleted, again, append, recreated):
            assert await answer.code() == "not_applied"
    assert world.read(KEY) == b"kept"


@story
async def test_a_refusal_from_durable_state_does_not_wait_for_other_streams() -> None:
    world = World()
    await world.made(KEY)
    await world.appended(KEY, b"", closes=True)
    with world.gate():
        world.create("test/other")
        assert await world.append(KEY, b"late").code() == "stream_closed"


@story
async def test_answers_of_one_commit_name_the_end_of_each_append() -> None:
    world = World()
    created = await world.made(KEY)
    incarnation = created.next_offset.split("-")[0]
    with world.gate():
        answers = [world.append(KEY, body) for body in (b"a", b"bb", b"ccc")]
    offsets = [(await answer.success()).next_offset for answer in answers]
    assert offsets == [f"{incarnation}-{end:016d}" for end in (1, 3, 6)]
