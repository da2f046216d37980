"""The verifier can fail: a history that was tampered with is complained about, an honest one is not."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.crash.history import Attempt, Outcome, StreamHistory, View
from tests.crash.messages import Kind, Torn, encode, parse, payload, request_body, stored_bytes
from tests.crash.verify import Complaint, Observed, Wrong, examine

MESSAGES = 10


@dataclass
class Story:
    """A stream of ten acknowledged appends, and what the server shows of it."""

    stream: StreamHistory
    stored: list[bytes]
    closed: bool = False

    @property
    def raw(self) -> bytes:
        return b"".join(self.stored)

    def examine(self) -> list[Complaint]:
        return examine(self.stream, Observed(True, self.raw, self.closed, offset(len(self.raw))))

    def attempt(self, number: int, tries: int = 0, *, count: int = 1) -> Attempt:
        rng = random.Random(number)
        payloads = [payload(self.stream.kind, rng, 50) for _ in range(count)]
        key = ("w", number, tries)
        return self.stream.attempt(key, encode(self.stream.kind, key, payloads), count)


def offset(position: int) -> str:
    return f"{7:016d}-{position:016d}"


def a_story(kind: Kind = Kind.BYTES) -> Story:
    story = Story(StreamHistory("s", 0, kind, created=Outcome.ACKNOWLEDGED), [])
    for number in range(MESSAGES):
        attempt = story.attempt(number)
        story.stored.append(attempt.stored)
        attempt.acknowledge(offset(len(story.raw)))
    return story


def a_view(story: Story, messages: int) -> View:
    view = View("reader", 0, "-1")
    for stored in story.stored[:messages]:
        view.extend(stored, offset(view.end + len(stored)))
    story.stream.views.append(view)
    return view


@pytest.mark.parametrize("kind", Kind)
def test_an_honest_history_has_no_complaints(kind: Kind) -> None:
    story = a_story(kind)
    a_view(story, 5)
    assert story.examine() == []
    attempt = story.attempt(99)
    story.stored.append(attempt.stored)
    assert story.examine() == []
    assert attempt.outcome is Outcome.PRESENT


@pytest.mark.parametrize("kind", Kind)
def test_what_is_stored_comes_back_from_a_body(kind: Kind) -> None:
    stored = a_story(kind).raw
    body = request_body(kind, stored)
    assert stored_bytes(kind, body) == stored
    assert [(placed.index, placed.count) for placed in parse(kind, stored)] == [(0, 1)] * MESSAGES


def _lose(story: Story) -> None:
    del story.stored[4]


def _lose_the_last(story: Story) -> None:
    del story.stored[-1]


def _lose_everything(story: Story) -> None:
    story.stored.clear()


def _duplicate(story: Story) -> None:
    story.stored.append(story.stored[3])


def _duplicate_at_once(story: Story) -> None:
    story.stored.insert(3, story.stored[3])


def _flip_a_byte(story: Story) -> None:
    message = story.stored[6]
    story.stored[6] = message[:-5] + bytes([message[-5] ^ 1]) + message[-4:]


def _cut_the_end(story: Story) -> None:
    story.stored[-1] = story.stored[-1][:-10]


def _cut_the_beginning(story: Story) -> None:
    story.stored[0] = story.stored[0][1:]


def _half_a_batch(story: Story) -> None:
    batch = story.attempt(50, count=4)
    first_two = re.split(rb"(?=M\|w\|50)", batch.stored)[1:3]
    story.stored += first_two


def _swap(story: Story) -> None:
    story.stored[2], story.stored[3] = story.stored[3], story.stored[2]


def _refused_but_there(story: Story) -> None:
    refused = story.attempt(60)
    refused.outcome = Outcome.ABSENT
    story.stored.append(refused.stored)


def _another_streams_bytes(story: Story) -> None:
    story.stored.append(encode(Kind.BYTES, ("stranger", 1, 0), [b"x"]))


def _closure_lost(story: Story) -> None:
    story.stream.closed = Outcome.ACKNOWLEDGED


def _closed_by_nobody(story: Story) -> None:
    story.closed = True


def _deletion_lost(story: Story) -> None:
    story.stream.deleted = Outcome.ACKNOWLEDGED


def _offset_is_another_ones(story: Story) -> None:
    attempt = story.attempt(70)
    story.stored.append(attempt.stored)
    attempt.acknowledge(offset(len(story.raw) + 1))


def _reader_saw_more(story: Story) -> None:
    view = a_view(story, MESSAGES)
    view.claim(b"M|seen before the crash|")


def _reader_saw_other_bytes(story: Story) -> None:
    a_view(story, 5).data[20] ^= 1


def _reader_saw_the_end(story: Story) -> None:
    a_view(story, MESSAGES).closed = True


def _reader_saw_it_gone(story: Story) -> None:
    a_view(story, 3).gone = True


def _readers_offset_moved(story: Story) -> None:
    view = a_view(story, 3)
    view.checkpoints[1] = (offset(1), view.checkpoints[1][1])


@pytest.mark.parametrize(
    ("tamper", "wrong"),
    [
        (_lose, Wrong.LOST),
        (_lose_the_last, Wrong.LOST),
        (_lose_everything, Wrong.LOST),
        (_duplicate, Wrong.DUPLICATED),
        (_duplicate_at_once, Wrong.DUPLICATED),
        (_flip_a_byte, Wrong.TORN),
        (_cut_the_end, Wrong.TORN),
        (_cut_the_beginning, Wrong.TORN),
        (_half_a_batch, Wrong.TORN),
        (_swap, Wrong.DISORDERED),
        (_refused_but_there, Wrong.CAME_BACK),
        (_another_streams_bytes, Wrong.ANSWER),
        (_closure_lost, Wrong.LOST),
        (_closed_by_nobody, Wrong.ANSWER),
        (_deletion_lost, Wrong.CAME_BACK),
        (_offset_is_another_ones, Wrong.OFFSET_MOVED),
        (_reader_saw_more, Wrong.SEEN_THEN_LOST),
        (_reader_saw_other_bytes, Wrong.SEEN_THEN_LOST),
        (_reader_saw_the_end, Wrong.SEEN_THEN_LOST),
        (_reader_saw_it_gone, Wrong.SEEN_THEN_LOST),
        (_readers_offset_moved, Wrong.OFFSET_MOVED),
    ],
)
def test_a_tampered_history_is_complained_about(tamper: Callable[[Story], None], wrong: Wrong) -> None:
    story = a_story()
    tamper(story)
    assert wrong in {complaint.wrong for complaint in story.examine()}


@pytest.mark.parametrize("tamper", [_lose, _lose_the_last, _duplicate, _flip_a_byte, _cut_the_end, _swap])
def test_what_was_examined_once_may_not_change_later(tamper: Callable[[Story], None]) -> None:
    story = a_story()
    assert story.examine() == []
    tamper(story)
    assert story.examine() != []


@pytest.mark.parametrize("tamper", [_lose, _lose_the_last, _duplicate, _flip_a_byte, _cut_the_end, _swap])
def test_a_stream_at_rest_may_not_change_though_only_its_digest_is_kept(
    tamper: Callable[[Story], None],
) -> None:
    story = a_story()
    story.stream.abandoned = True
    for _ in range(4):
        assert story.examine() == []
    assert story.stream.digest is not None
    tamper(story)
    assert story.examine() != []


def test_an_append_that_was_not_there_after_a_restart_may_not_turn_up_later() -> None:
    story = a_story()
    unknown = story.attempt(80)
    stored = unknown.stored
    assert story.examine() == []
    assert unknown.outcome is Outcome.ABSENT
    story.stored.append(stored)
    assert [complaint.wrong for complaint in story.examine()] == [Wrong.CAME_BACK]


def test_an_append_sent_again_under_its_identity_may_turn_up_once() -> None:
    story = a_story()
    unknown = story.attempt(80)
    stored = unknown.stored
    assert story.examine() == []
    story.stream.resend(unknown, stored)
    story.stored.append(stored)
    assert story.examine() == []
    story.stored.append(stored)
    assert [complaint.wrong for complaint in story.examine()] == [Wrong.DUPLICATED]


def test_a_later_append_may_not_stand_before_one_that_was_acknowledged_when_it_was_sent() -> None:
    story = a_story()
    other = ("other", 1, 0)
    stored = encode(Kind.BYTES, other, [b"sent after all of them"])
    story.stream.attempt(other, stored)
    story.stored.insert(5, stored)
    assert Wrong.DISORDERED in {complaint.wrong for complaint in story.examine()}


def test_a_stream_that_nobody_deleted_may_not_be_missing() -> None:
    story = a_story()
    assert [complaint.wrong for complaint in examine(story.stream, Observed(False))] == [Wrong.LOST]


def test_an_unanswered_deletion_may_have_happened_or_not_but_is_settled_then() -> None:
    story = a_story()
    story.stream.deleted = Outcome.UNKNOWN
    assert examine(story.stream, Observed(False)) == []
    assert [complaint.wrong for complaint in story.examine() if complaint.wrong is Wrong.CAME_BACK]


def test_no_part_of_a_message_passes_for_a_whole_one() -> None:
    raw = a_story().raw
    ends = {placed.end for placed in parse(Kind.BYTES, raw)} | {0}
    for length in range(len(raw)):
        if length not in ends:
            with pytest.raises(Torn):
                parse(Kind.BYTES, raw[:length])
