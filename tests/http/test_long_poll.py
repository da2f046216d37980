"""Long-poll: an answer as soon as there is one, and never another stream's."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.http.wire import Client, Wire, encode

JSON = "application/json"


def poll(client: Client, target: str) -> Wire:
    """A long-poll that has been sent; its answer is still to come."""
    wire = client.wire()
    wire.send(encode("GET", target, {}, b"", client.server.port))
    return wire


def test_what_is_there_is_answered_at_once(client: Client, stream: str) -> None:
    client.made(stream, body="hello")
    answer = client.get(f"{stream}?offset=-1&live=long-poll")
    assert (answer.status, answer.body) == (200, b"hello")
    assert answer.need("Stream-Cursor").isdigit()
    assert answer.get("Stream-Up-To-Date") == "true"


def test_what_is_not_there_is_answered_when_it_comes(client: Client, stream: str) -> None:
    offset = client.made(stream, body="old").offset
    with poll(client, f"{stream}?offset={offset}&live=long-poll") as wire:
        time.sleep(0.1)
        end = client.added(stream, "new").offset
        answer = wire.answer()
    assert (answer.status, answer.body, answer.offset) == (200, b"new", end)


def test_a_wait_without_news_ends_with_204(client: Client, stream: str) -> None:
    made = client.made(stream, body="hello")
    began = time.monotonic()
    answer = client.get(f"{stream}?offset=now&live=long-poll")
    assert 1.0 < time.monotonic() - began < 5
    assert (answer.status, answer.body, answer.offset) == (204, b"", made.offset)
    assert answer.get("Stream-Up-To-Date") == "true"
    assert answer.need("Stream-Cursor").isdigit()
    assert answer.get("Stream-Closed") is None


def test_an_echoed_cursor_is_always_passed(client: Client, stream: str) -> None:
    client.made(stream, body="hello")
    cursor = client.get(f"{stream}?offset=0&live=long-poll").need("Stream-Cursor")
    for _ in range(3):
        following = client.get(f"{stream}?offset=0&live=long-poll&cursor={cursor}").need("Stream-Cursor")
        assert int(following) > int(cursor)
        cursor = following
    for odd in ("", "abc", "-5", "9" * 40, "%00"):
        assert client.get(f"{stream}?offset=0&live=long-poll&cursor={odd}").status == 200, odd


def test_a_closed_stream_is_not_waited_for(client: Client, stream: str) -> None:
    client.made(stream, body="hello")
    client.closed(stream)
    began = time.monotonic()
    answer = client.get(f"{stream}?offset=now&live=long-poll")
    assert time.monotonic() - began < 1
    assert (answer.status, answer.get("Stream-Closed")) == (204, "true")
    assert answer.get("Stream-Up-To-Date") == "true"


def test_closing_ends_a_wait(client: Client, stream: str) -> None:
    client.made(stream)
    with poll(client, f"{stream}?offset=now&live=long-poll") as wire:
        time.sleep(0.1)
        client.closed(stream)
        answer = wire.answer()
    assert (answer.status, answer.get("Stream-Closed")) == (204, "true")


def test_a_closing_append_is_answered_with_its_bytes(client: Client, stream: str) -> None:
    client.made(stream)
    with poll(client, f"{stream}?offset=now&live=long-poll") as wire:
        time.sleep(0.1)
        client.added(stream, "the end", headers={"Stream-Closed": "true"})
        answer = wire.answer()
    assert (answer.status, answer.body, answer.get("Stream-Closed")) == (200, b"the end", "true")


def test_deletion_ends_a_wait_with_404(client: Client, stream: str) -> None:
    client.made(stream)
    with poll(client, f"{stream}?offset=now&live=long-poll") as wire:
        time.sleep(0.1)
        client.delete(stream)
        answer = wire.answer()
    assert (answer.status, answer.code) == (404, "stream_not_found")


def test_a_soft_deletion_ends_a_wait_with_410(client: Client, stream: str) -> None:
    client.made(stream)
    client.made(f"{stream}-fork", headers={"Stream-Forked-From": stream})
    with poll(client, f"{stream}?offset=now&live=long-poll") as wire:
        time.sleep(0.1)
        client.delete(stream)
        assert wire.answer().status == 410


def test_a_wait_never_moves_on_to_a_successor(client: Client, stream: str) -> None:
    client.made(stream)
    with poll(client, f"{stream}?offset=now&live=long-poll") as wire:
        time.sleep(0.1)
        with client.wire() as other:  # all three before the waiter can come back
            requests = [("DELETE", b""), ("PUT", b""), ("POST", b"another stream's")]
            kind = {"Content-Type": "text/plain"}
            other.send(b"".join(encode(m, stream, kind, body, client.server.port) for m, body in requests))
            assert [other.answer().status for _ in requests] == [204, 201, 204]
        assert wire.answer().status == 404


def test_expiry_ends_a_wait_with_404(client: Client, stream: str) -> None:
    client.made(stream, headers={"Stream-Expires-At": in_a_second()})
    answer = client.get(f"{stream}?offset=now&live=long-poll")
    if answer.status == 204:  # the wait was over first
        answer = client.get(f"{stream}?offset=now&live=long-poll")
    assert answer.status == 404


def in_a_second() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 2))


def test_max_bytes_holds_for_a_long_poll(client: Client, stream: str) -> None:
    client.made(stream, JSON, "[11,22,33]")
    answer = client.get(f"{stream}?offset=-1&live=long-poll&max_bytes=7")
    assert answer.json == [11, 22]
    assert answer.get("Stream-Up-To-Date") is None


def test_a_cut_long_poll_of_a_closed_stream_has_a_cursor(client: Client, stream: str) -> None:
    """Only the answer that says closed may leave it out: after this one the client polls again."""
    client.made(stream, body="hello", headers={"Stream-Closed": "true"})
    cut = client.get(f"{stream}?offset=-1&live=long-poll&max_bytes=2")
    assert (cut.body, cut.get("Stream-Closed")) == (b"he", None)
    assert cut.need("Stream-Cursor").isdigit()
    last = client.get(f"{stream}?offset={cut.offset}&live=long-poll&cursor={cut.need('Stream-Cursor')}")
    assert (last.body, last.get("Stream-Closed"), last.get("Stream-Cursor")) == (b"llo", "true", None)


@pytest.mark.parametrize("digits", [9, 15, 16, 17, 40, 300])
def test_a_cursor_is_always_beyond_the_one_that_was_echoed(client: Client, stream: str, digits: int) -> None:
    client.made(stream, body="hello")
    cursor = "9" * digits
    for _ in range(3):
        answer = client.get(f"{stream}?offset=0&live=long-poll&cursor={cursor}")
        assert int(answer.need("Stream-Cursor")) > int(cursor)
        cursor = answer.need("Stream-Cursor")


def test_answers_to_many_places_are_each_their_own(client: Client, stream: str) -> None:
    """Answers are shared by those who ask for the same, and by nobody else."""
    body = "abcdefghij" * 30
    client.made(stream, body=body)
    client.made(f"{stream}-other", body=body.upper())
    with client.wire() as wire:
        for turn in range(2):
            for position in range(0, 300, 7):
                for size in (1, 300):
                    for target, text in ((stream, body), (f"{stream}-other", body.upper())):
                        query = f"offset={position}&live=long-poll&max_bytes={size}"
                        answer = wire.request("GET", f"{target}?{query}")
                        assert answer.body == text[position : position + size].encode(), (turn, query)
    client.added(stream, "!")
    assert client.get(f"{stream}?offset=294&live=long-poll&max_bytes=300").body == b"efghij!"


def test_answers_that_nobody_asks_for_again_do_not_stay_in_memory(native: Client, stream: str) -> None:
    """A stream that nothing is added to any more, read from four hundred places."""
    native.made(stream, "application/octet-stream", b"x" * (256 << 10))
    status = Path(f"/proc/{native.server.pid}/status")
    before = resident_mib(status)
    with native.wire() as wire:
        for position in range(400):
            answer = wire.request("GET", f"{stream}?offset={position}&live=long-poll")
            assert len(answer.body) == (256 << 10) - position
    assert resident_mib(status) - before < 60


def resident_mib(status: Path) -> float:
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def test_many_waiters_all_get_the_same_append(client: Client, stream: str) -> None:
    client.made(stream)
    wires = [poll(client, f"{stream}?offset=now&live=long-poll") for _ in range(50)]
    time.sleep(0.2)
    client.added(stream, "news")
    try:
        assert {wire.answer().body for wire in wires} == {b"news"}
    finally:
        for wire in wires:
            wire.close()


def test_a_waiter_that_goes_away_is_forgotten(client: Client, stream: str) -> None:
    client.made(stream)
    for _ in range(5):
        poll(client, f"{stream}?offset=now&live=long-poll").close()
    client.added(stream, "news")
    assert client.get(stream).body == b"news"


@pytest.mark.parametrize("form", ["array", "lines"])
def test_a_json_long_poll_has_the_form_of_a_read(client: Client, stream: str, form: str) -> None:
    client.made(stream, JSON, "[1]")
    accept = {"Accept": "application/x-ndjson"} if form == "lines" else {}
    answer = client.get(f"{stream}?offset=-1&live=long-poll", accept)
    assert answer.body == (b"1\n" if form == "lines" else b"[1]")
    assert answer.get("Vary") == "Accept"
