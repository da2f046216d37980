"""A stream that was deleted and made again is another stream: nobody reads one for the other."""

from __future__ import annotations

import pytest

from tests.http.refusals import producer
from tests.http.wire import Client


@pytest.fixture
def old(client: Client, stream: str) -> str:
    """An offset of the first stream of the name; a longer one has taken its place."""
    client.made(stream)
    offset = client.added(stream, "first", headers=producer(epoch="3")).offset
    assert client.delete(stream).status == 204
    client.made(stream, body="the second, which is longer")
    return offset


@pytest.mark.parametrize("live", ["", "&live=long-poll", "&live=sse"])
def test_an_old_offset_is_410_in_every_way_of_reading(
    client: Client, stream: str, old: str, live: str
) -> None:
    answer = client.get(f"{stream}?offset={old}{live}")
    assert (answer.status, answer.code) == (410, "offset_gone")
    assert b"second" not in answer.body


def test_a_browser_that_resumes_with_an_old_event_gets_410(client: Client, stream: str, old: str) -> None:
    assert client.get(f"{stream}?offset=-1&live=sse", {"Last-Event-ID": old}).status == 410


def test_an_old_beginning_is_410_as_well(client: Client, stream: str, old: str) -> None:
    """Position 0 of the first stream is not position 0 of the second."""
    beginning = f"{old.partition('-')[0]}-{0:016d}"
    assert client.get(f"{stream}?offset={beginning}").status == 410


def test_positions_without_an_incarnation_mean_the_current_stream(
    client: Client, stream: str, old: str
) -> None:
    for offset in ("11", f"{0:016d}-{11:016d}", f"{0:016d}_{11:016d}"):
        assert client.get(f"{stream}?offset={offset}").body == b" which is longer", offset


def test_an_old_etag_matches_nothing(client: Client, stream: str) -> None:
    client.made(stream, body="same")
    state, read = client.head(stream).need("ETag"), client.get(stream).need("ETag")
    client.delete(stream)
    client.made(stream, body="same")
    assert client.get(stream, {"If-None-Match": read}).status == 200
    assert client.head(stream, {"If-None-Match": state}).status == 200
    for etag in (state, read):
        assert client.post(stream, "x", headers={"If-Match": etag}).status == 412


def test_nothing_of_the_first_stream_is_left_in_the_second(client: Client, stream: str) -> None:
    client.made(stream, "text/html", "first", {"Stream-TTL": "600"})
    client.added(stream, "x", "text/html", {**producer(epoch="9"), "Stream-Seq": "z"})
    client.closed(stream)
    client.delete(stream)
    made = client.made(stream, "text/plain")
    assert made.get("Stream-Closed") is None
    head = client.head(stream)
    assert (head.get("Content-Type"), head.get("Stream-TTL")) == ("text/plain", None)
    assert client.post(stream, "y", headers={**producer(epoch="0"), "Stream-Seq": "a"}).status == 200
    assert client.get(stream).body == b"y"


def test_incarnations_grow(client: Client, stream: str) -> None:
    seen = []
    for _ in range(5):
        seen.append(client.made(stream).offset)
        client.delete(stream)
    assert seen == sorted(set(seen))


def test_a_fork_of_a_successor_does_not_know_the_old_offsets(client: Client, stream: str, old: str) -> None:
    headers = {"Stream-Forked-From": stream}
    assert client.put(f"{stream}-1", headers=headers | {"Stream-Fork-Offset": old}).status == 400
    client.made(f"{stream}-2", headers=headers)
    assert client.get(f"{stream}-2?offset={old}").status == 410


def test_an_offset_of_another_stream_is_410(client: Client, stream: str) -> None:
    client.made(stream, body="one")
    other = client.made(f"{stream}-other", body="two").offset
    assert client.get(f"{stream}?offset={other}").status == 410


def test_an_offset_of_an_incarnation_to_come_is_410(client: Client, stream: str) -> None:
    client.made(stream, body="one")
    assert client.get(f"{stream}?offset={10**16 - 1}-{1:016d}").status == 410
