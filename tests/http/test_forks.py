"""Forks: another stream with the same past, whatever becomes of the first."""

from __future__ import annotations

import time

import pytest

from tests.http.wire import Answer, Client

JSON = "application/json"


def fork(client: Client, target: str, source: str, **headers: str) -> Answer:
    sent = {f"Stream-{name.replace('_', '-')}": value for name, value in headers.items()}
    return client("PUT", target, {"Stream-Forked-From": source, **sent})


@pytest.fixture
def twin(stream: str) -> str:
    return f"{stream}-fork"


def test_a_fork_has_the_past_and_its_own_future(client: Client, stream: str, twin: str) -> None:
    client.made(stream, body="past")
    made = fork(client, twin, stream)
    assert (made.status, made.get("Content-Type")) == (201, "text/plain")
    client.added(stream, "-one")
    client.added(twin, "-two")
    assert client.get(stream).body == b"past-one"
    assert client.get(twin).body == b"past-two"


def test_fork_headers_are_never_echoed(client: Client, stream: str, twin: str) -> None:
    client.made(stream, body="past")
    for answer in (fork(client, twin, stream, Fork_Offset="2"), client.head(twin), client.get(twin)):
        assert not [name for name, _ in answer.headers if name.startswith("stream-fork")]


def test_every_form_of_an_offset_says_where_to_fork(client: Client, stream: str) -> None:
    client.made(stream)
    middle = client.added(stream, "abc").offset
    client.added(stream, "def")
    forms = {"-1": b"", "0": b"", "now": b"abcdef", "4": b"abcd", middle: b"abc"}
    forms |= {middle.replace("-", "_"): b"abc", f"{0:016d}-{5:016d}": b"abcde"}
    for number, (offset, body) in enumerate(forms.items()):
        target = f"{stream}-{number}"
        assert fork(client, target, stream, Fork_Offset=offset).status == 201, offset
        assert client.get(target).body == body, offset


def test_a_sub_offset_counts_bytes_or_messages(client: Client, stream: str) -> None:
    client.made(stream, body="abcdef")
    assert fork(client, f"{stream}-1", stream, Fork_Offset="2", Fork_Sub_Offset="3").status == 201
    assert client.get(f"{stream}-1").body == b"abcde"
    client.made(f"{stream}-json", JSON, "[1,[2,2],3,4]")
    assert fork(client, f"{stream}-2", f"{stream}-json", Fork_Offset="2", Fork_Sub_Offset="2").status == 201
    assert client.get(f"{stream}-2").body == b"[1,[2,2],3]"
    assert fork(client, f"{stream}-3", f"{stream}-json", Fork_Offset="2", Fork_Sub_Offset="0").status == 201
    assert client.get(f"{stream}-3").body == b"[1]"


def test_a_source_may_be_named_by_either_surface_and_escaped(client: Client, stream: str) -> None:
    client.made(stream, body="past")
    name = stream.rsplit("/", 1)[1]
    for number, source in enumerate(
        (f"/_default/{name}", f"/v1/stream/_default%2F{name}", f"http://x{stream}")
    ):
        assert fork(client, f"{stream}-{number}", source).status == 201, source
        assert client.get(f"{stream}-{number}").body == b"past"


def test_the_sources_offsets_are_the_forks_up_to_the_fork_point(
    client: Client, stream: str, twin: str
) -> None:
    client.made(stream)
    first = client.added(stream, "one").offset
    point = client.added(stream, "two").offset
    made = fork(client, twin, stream)
    assert made.offset == point, "the very same offset"
    own = client.added(twin, "three").offset
    later = client.added(stream, "elsewhere").offset
    assert own > point, "still sorted"
    assert client.get(f"{twin}?offset={first}").body == b"twothree"
    assert client.get(f"{twin}?offset={point}").body == b"three"
    assert client.get(f"{twin}?offset={later}").status == 410, "the source's own from there on"
    assert client.get(f"{stream}?offset={own}").status == 410


def test_a_fork_of_a_fork_knows_all_its_ancestors_offsets(client: Client, stream: str) -> None:
    offsets, target, body = [client.made(stream).offset], stream, b""
    for generation in range(4):
        piece = f"{generation};".encode()
        offsets.append(client.added(target, piece).offset)
        body += piece
        assert fork(client, f"{stream}-{generation}", target).status == 201
        target = f"{stream}-{generation}"
    assert client.get(target).body == body
    for generation, offset in enumerate(offsets):
        assert client.get(f"{target}?offset={offset}").body == body[2 * generation :]
    assert fork(client, f"{stream}-back", target, Fork_Offset=offsets[1]).status == 201
    assert client.get(f"{stream}-back").body == b"0;"
    assert client.get(f"{stream}-back?offset={offsets[2]}").status in (400, 410)


def test_a_long_poll_at_an_inherited_offset_returns_at_once(client: Client, stream: str, twin: str) -> None:
    client.made(stream, body="past")
    fork(client, twin, stream)
    answer = client.get(f"{twin}?offset=0&live=long-poll")
    assert (answer.status, answer.body) == (200, b"past")
    began = time.monotonic()
    client.added(stream, "not for the fork")
    assert client.get(f"{twin}?offset=now&live=long-poll").status == 204
    assert time.monotonic() - began > 1


def test_events_of_a_fork_go_through_the_fork_point(client: Client, stream: str, twin: str) -> None:
    client.made(stream, body="past")
    fork(client, twin, stream)
    client.added(twin, "-own", headers={"Stream-Closed": "true"})
    wire, _, events = client.listen(f"{twin}?offset=-1&live=sse")
    with wire:
        assert "".join(event.data for event in events if event.kind == "data") == "past-own"


def test_a_closed_source_gives_an_open_fork(client: Client, stream: str, twin: str) -> None:
    client.made(stream, body="past")
    client.closed(stream)
    assert fork(client, twin, stream).get("Stream-Closed") is None
    assert client.added(twin, "!").status == 204


def test_producers_and_stream_seq_are_not_inherited(client: Client, stream: str, twin: str) -> None:
    client.made(stream)
    headers = {"Producer-Id": "p", "Producer-Epoch": "5", "Producer-Seq": "0", "Stream-Seq": "z"}
    client.added(stream, "x", headers=headers)
    fork(client, twin, stream)
    answer = client.post(twin, "x", headers=headers | {"Producer-Epoch": "0", "Stream-Seq": "a"})
    assert answer.status == 200


def test_a_fork_takes_its_sources_expiry_unless_it_says_its_own(client: Client, stream: str) -> None:
    client.made(stream, headers={"Stream-TTL": "600"})
    fork(client, f"{stream}-1", stream)
    fork(client, f"{stream}-2", stream, TTL="60")
    fork(client, f"{stream}-3", stream, Expires_At="2099-01-01T00:00:00Z")
    heads = [client.head(f"{stream}-{number}") for number in (1, 2, 3)]
    assert [head.get("Stream-TTL") for head in heads] == ["600", "60", None]
    assert heads[2].get("Stream-Expires-At") == "2099-01-01T00:00:00Z"


def test_a_repeated_fork_is_200_and_another_one_409(client: Client, stream: str, twin: str) -> None:
    client.made(stream, body="past")
    assert fork(client, twin, stream, Fork_Offset="2").status == 201
    client.added(stream, "more")
    client.added(twin, "own")
    assert fork(client, twin, stream, Fork_Offset="2").status == 200
    for headers in ({"Fork_Offset": "3"}, {"Fork_Offset": "2", "Fork_Sub_Offset": "1"}, {}):
        assert fork(client, twin, stream, **headers).status == 409, headers
    assert client.put(twin).status == 409, "not as a stream without a source"
    assert client.get(twin).body == b"paown"


def test_an_offset_is_the_same_request_in_every_way_of_writing_it(client: Client, stream: str) -> None:
    client.made(stream)
    middle = client.added(stream, "abc").offset
    client.added(stream, "def")
    same = {middle: (middle.replace("-", "_"),), "3": (f"{0:016d}-{3:016d}", f"{0:016d}_{3:016d}", "03")}
    for number, (first, others) in enumerate(same.items()):
        assert fork(client, f"{stream}-{number}", stream, Fork_Offset=first).status == 201
        for other in others:
            assert fork(client, f"{stream}-{number}", stream, Fork_Offset=other).status == 200, other


def test_a_deleted_source_lives_on_in_its_forks_and_nowhere_else(
    client: Client, stream: str, twin: str
) -> None:
    client.made(stream, body="past")
    fork(client, twin, stream)
    assert client.delete(stream).status == 204
    assert client.get(twin).body == b"past"
    for answer in (client.get(stream), client.head(stream), client.post(stream, "x"), client.delete(stream)):
        assert answer.status == 410
    assert client.put(stream).status == 409
    assert fork(client, f"{stream}-late", stream).status == 409
    assert client.added(twin, "!").status == 204


def test_the_last_forks_deletion_cascades_upward(client: Client, stream: str) -> None:
    """Three generations; the two upper ones are only held by the lowest."""
    client.made(stream, body="past")
    fork(client, f"{stream}-1", stream)
    fork(client, f"{stream}-2", f"{stream}-1")
    fork(client, f"{stream}-other", stream)
    assert [client.delete(path).status for path in (stream, f"{stream}-1")] == [204, 204]
    assert [client.head(path).status for path in (stream, f"{stream}-1")] == [410, 410]
    client.delete(f"{stream}-2")
    assert becomes(client, f"{stream}-1", 404)
    assert client.head(stream).status == 410, "another fork still holds it"
    client.delete(f"{stream}-other")
    assert becomes(client, stream, 404)
    assert client.made(stream, body="new").status == 201


def becomes(client: Client, target: str, status: int) -> bool:
    deadline = time.monotonic() + 2
    while client.head(target).status != status and time.monotonic() < deadline:
        time.sleep(0.01)
    return client.head(target).status == status


def test_an_expired_source_with_forks_counts_as_deleted(client: Client, stream: str, twin: str) -> None:
    client.made(stream, body="past", headers={"Stream-TTL": "1"})
    fork(client, twin, stream, TTL="600")
    time.sleep(1.2)
    assert client.head(stream).status == 410
    assert client.put(stream).status == 409
    assert client.get(twin).body == b"past"


def test_an_expired_forks_hold_goes_with_it(client: Client, stream: str, twin: str) -> None:
    client.made(stream, body="past")
    fork(client, twin, stream, TTL="1")
    client.delete(stream)
    assert client.head(stream).status == 410
    time.sleep(1.2)
    assert client.head(twin).status == 404
    assert becomes(client, stream, 404)


def test_a_fork_can_bring_its_first_append(client: Client, stream: str, twin: str) -> None:
    client.made(stream, body="past")
    made = client.put(twin, body="-own", headers={"Stream-Forked-From": stream, "Stream-Fork-Offset": "2"})
    assert made.status == 201
    assert client.get(twin).body == b"pa-own"
