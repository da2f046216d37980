"""Where catch-up is cut: about every 256 KiB, never inside a character, and `upToDate` only in the end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.http.events import Event
from tests.http.wire import Client

PIECE = 256 << 10


def caught_up(events: Iterator[Event]) -> list[Event]:
    """Everything up to the first word that the tail is reached."""
    kept = []
    for event in events:
        if event.kind != "comment":
            kept.append(event)
        if event.kind == "control" and event.json.get("upToDate"):
            return kept
    raise AssertionError(f"no upToDate in {len(kept)} events")


@pytest.mark.parametrize("more", range(-1, 6))
@pytest.mark.parametrize("last", ["x", "ä", "€", "😀"])
def test_up_to_date_is_said_when_everything_has_been_sent(
    client: Client, stream: str, more: int, last: str
) -> None:
    """The cut may fall one, two or three bytes before the tail, or inside the last character."""
    encoded = last.encode()
    body = b"a" * (PIECE + more - len(encoded)) + encoded
    tail = client.made(stream, body=body).offset
    wire, _, events = client.listen(f"{stream}?offset=-1&live=sse")
    with wire:
        found = caught_up(events)
    assert found[-1].id == tail
    assert "".join(event.data for event in found[::2]).encode() == body
    assert [event.kind for event in found] == ["data", "control"] * (len(found) // 2)


@pytest.mark.parametrize("cursor", ["0", "99999999", "9" * 30, "abc", ""])
def test_cursors_of_events_are_beyond_the_echoed_one_and_never_go_back(
    client: Client, stream: str, cursor: str
) -> None:
    client.made(stream)
    wire, _, events = client.listen(f"{stream}?offset=now&live=sse&cursor={cursor}")
    seen = []
    with wire:
        for _ in range(8):
            seen.append(int(caught_up(events)[-1].json["streamCursor"]))
            client.added(stream, "x")
    assert seen == sorted(seen)
    if cursor.isdigit():
        assert seen[0] > int(cursor)


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_half_a_character_behind_a_cut_waits_for_its_rest(client: Client, stream: str, missing: int) -> None:
    whole = "😀".encode()
    body = b"a" * (PIECE + 2)
    client.made(stream, body=body + whole[:-missing])
    wire, _, events = client.listen(f"{stream}?offset=-1&live=sse")
    with wire:
        found = caught_up(events)
        assert "".join(event.data for event in found[::2]).encode() == body
        tail = client.added(stream, whole[-missing:]).offset
        data, control = itertools.islice((event for event in events if event.kind != "comment"), 2)
        assert (data.data, control.id) == ("😀", tail)
