"""Long-poll: an answer as soon as there is one, and never another stream's."""

from __future__ import annotations

import time

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
