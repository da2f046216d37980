"""POST: preconditions, producers, closure, in the order that the protocol gives them."""

from __future__ import annotations

import pytest

from tests.http.refusals import producer
from tests.http.wire import Answer, Client

JSON = "application/json"


def test_if_match_takes_the_state_a_star_a_list_and_the_etag_of_a_read(client: Client, stream: str) -> None:
    client.made(stream)
    for form in ("{state}", "*", '"other", {state}', "{read}"):
        state, read = client.head(stream).need("ETag"), client.get(stream).need("ETag")
        headers = {"If-Match": form.format(state=state, read=read)}
        assert client.post(stream, "x", headers=headers).status == 204, form
        if form != "*":
            refused = client.post(stream, "x", headers=headers)
            assert refused.status == 412, form
            assert refused.get("ETag") == client.head(stream).get("ETag")
    assert client.get(stream).body == b"xxxx"


def test_if_match_takes_the_etag_of_a_json_read_in_either_form(client: Client, stream: str) -> None:
    client.made(stream, JSON, "[1]")
    for accept in (JSON, "application/x-ndjson"):
        etag = client.get(stream, {"Accept": accept}).need("ETag")
        assert client.post(stream, "2", JSON, {"If-Match": etag}).status == 204
        assert client.post(stream, "2", JSON, {"If-Match": etag}).status == 412


def test_the_etag_of_a_read_that_ended_before_the_tail_does_not_match(client: Client, stream: str) -> None:
    client.made(stream, body="hello")
    etag = client.get(f"{stream}?max_bytes=2").need("ETag")
    assert client.post(stream, "x", headers={"If-Match": etag}).status == 412


def test_if_match_compares_strongly(client: Client, stream: str) -> None:
    etag = client.made(stream).need("ETag")
    assert client.post(stream, "x", headers={"If-Match": f"W/{etag}"}).status == 412


def test_deduplication_comes_before_if_match_and_stream_seq(client: Client, stream: str) -> None:
    etag = client.made(stream).need("ETag")
    headers = {**producer(), "If-Match": etag, "Stream-Seq": "a"}
    first = client.post(stream, "x", headers=headers)
    assert first.status == 200
    again = client.post(stream, "x", headers=headers)
    assert (again.status, again.offset) == (204, first.offset)


def test_closure_comes_before_if_match_and_content_type(client: Client, stream: str) -> None:
    client.made(stream)
    client.closed(stream)
    answer = client.post(stream, "x", "text/html", {"If-Match": '"0-0"', "Stream-Seq": "a"})
    assert (answer.status, answer.code) == (409, "stream_closed")
    assert answer.get("Stream-Closed") == "true"
    assert answer.offset == client.head(stream).offset


def test_stream_seq_grows_by_bytes_and_belongs_to_the_stream(client: Client, stream: str) -> None:
    client.made(stream)
    for seq in ("1", "10", "2", "B", "a"):
        assert client.post(stream, "x", headers={"Stream-Seq": seq}).status == 204, seq
    for seq in ("a", "B", "3"):
        assert client.post(stream, "x", headers={"Stream-Seq": seq}).status == 409, seq
    assert client.post(stream, "x").status == 204, "without one nothing is compared"


def test_a_new_producer_append_is_200_and_a_duplicate_204(client: Client, stream: str) -> None:
    client.made(stream)
    answers = [client.post(stream, "x", headers=producer(seq=seq)) for seq in ("0", "1", "0", "2")]
    assert [answer.status for answer in answers] == [200, 200, 204, 200]
    assert [answer.get("Producer-Seq") for answer in answers] == ["0", "1", "1", "2"]
    assert answers[2].offset == answers[1].offset, "the end of the highest accepted one"
    assert client.get(stream).body == b"xxx"


def test_a_new_epoch_begins_with_zero_and_ends_the_old_one(client: Client, stream: str) -> None:
    client.made(stream)
    assert client.post(stream, "a", headers=producer(epoch="1")).status == 200
    assert client.post(stream, "b", headers=producer(epoch="7")).status == 200
    stale = client.post(stream, "c", headers=producer(epoch="1", seq="1"))
    assert (stale.status, stale.get("Producer-Epoch")) == (403, "7")
    assert stale.json["error"]["current_epoch"] == 7
    assert client.get(stream).body == b"ab"


def test_a_gap_says_what_was_expected(client: Client, stream: str) -> None:
    client.made(stream)
    client.added(stream, "a", headers=producer())
    gap = client.post(stream, "c", headers=producer(seq="5"))
    assert gap.status == 409
    assert (gap.get("Producer-Expected-Seq"), gap.get("Producer-Received-Seq")) == ("1", "5")
    assert (gap.json["error"]["expected_seq"], gap.json["error"]["received_seq"]) == (1, 5)


def test_producers_do_not_know_of_each_other(client: Client, stream: str) -> None:
    client.made(stream)
    for identity in ("a/b", "A/B", "ü", "x" * 512):
        headers = producer(identity.encode().decode("latin-1"))
        assert client.post(stream, "x", headers=headers).status == 200


@pytest.mark.parametrize("conflict", ["closed", "content type", "stream seq", "gap"])
def test_every_409_to_a_producer_says_which_sequence(client: Client, stream: str, conflict: str) -> None:
    """A client that knows only gaps must not send the batch again in a loop."""
    client.made(stream)
    client.added(stream, "a", headers={**producer(), "Stream-Seq": "m"})
    headers, kind, expected = producer(seq="1"), "text/plain", "1"
    if conflict == "closed":
        client.closed(stream)
    elif conflict == "content type":
        kind = "text/html"
    elif conflict == "stream seq":
        headers["Stream-Seq"] = "a"
    else:
        headers = producer(seq="9")
    answer = client.post(stream, "b", kind, headers)
    assert answer.status == 409, answer
    assert answer.get("Producer-Expected-Seq") == expected
    assert answer.get("Producer-Received-Seq") == headers["Producer-Seq"]
    if conflict == "closed":
        assert (answer.get("Producer-Epoch"), answer.get("Producer-Seq")) == ("0", "0")


def close_answer(client: Client, stream: str, body: str = "", **headers: str) -> Answer:
    sent = {"Stream-Closed": "true", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return client("POST", stream, sent, body)


def test_a_plain_close_is_204_however_often(client: Client, stream: str) -> None:
    client.made(stream, body="hello")
    for _ in range(2):
        answer = close_answer(client, stream)
        assert (answer.status, answer.get("Stream-Closed")) == (204, "true")
        assert answer.offset == client.head(stream).offset
    assert client.head(stream).get("Stream-Closed") == "true"


def test_a_close_without_a_body_ignores_the_content_type(client: Client, stream: str) -> None:
    client.made(stream, JSON)
    assert close_answer(client, stream, Content_Type="text/html").status == 204


def test_the_last_append_can_close(client: Client, stream: str) -> None:
    client.made(stream)
    answer = close_answer(client, stream, "the end", Content_Type="text/plain")
    assert (answer.status, answer.get("Stream-Closed")) == (204, "true")
    assert client.get(stream).body == b"the end"
    assert close_answer(client, stream, "again", Content_Type="text/plain").status == 409


def test_a_producers_closing_append_can_be_repeated_exactly(client: Client, stream: str) -> None:
    client.made(stream)
    sent = {"Content-Type": "text/plain", **producer()}
    assert close_answer(client, stream, "end", **sent).status == 200
    again = close_answer(client, stream, "end", **sent)
    assert (again.status, again.get("Producer-Seq")) == (204, "0")
    assert close_answer(client, stream, "end", **{**sent, "Producer-Seq": "1"}).status == 409
    assert client.get(stream).body == b"end"


def test_the_closing_tuple_is_a_duplicate_even_when_it_does_not_ask_to_close(
    client: Client, stream: str
) -> None:
    """Base §5.2.1: the tuple decides, not the header."""
    client.made(stream)
    end = client.post(stream, "end", headers={"Stream-Closed": "true", **producer()}).offset
    again = client.post(stream, "end", headers=producer())
    assert (again.status, again.get("Stream-Closed"), again.offset) == (204, "true", end)
    assert client.get(stream).body == b"end"


def test_numbers_of_any_length_in_if_match_match_nothing(client: Client, stream: str) -> None:
    client.made(stream, body="hello")
    for etag in (f'"{"9" * 5000}:0:5"', f'"1:{"9" * 5000}:5"', f'"1:0:{"9" * 5000}"', f'"{"9" * 5000}-5"'):
        for method in ("POST", "PUT"):
            answer = client(method, stream, {"Content-Type": "text/plain", "If-Match": etag}, "x")
            assert answer.status == 412, (method, etag[:20], answer)


def test_a_producers_close_without_a_body_is_204(client: Client, stream: str) -> None:
    client.made(stream)
    client.added(stream, "x", headers=producer())
    assert close_answer(client, stream, **producer(seq="1")).status == 204
    assert close_answer(client, stream, **producer(seq="1")).status == 204


def test_only_true_closes(client: Client, stream: str) -> None:
    client.made(stream)
    client.added(stream, "x", headers={"Stream-Closed": "false"})
    client.added(stream, "y", headers={"Stream-Closed": "1"})
    assert client.head(stream).get("Stream-Closed") is None
    assert close_answer(client, stream, **{"Stream-Closed": "TRUE"}).status == 204
