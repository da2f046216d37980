"""GET without `live`: one answer up to the tail, cacheable, from any offset that there is."""

from __future__ import annotations

import json

import pytest

from tests.http.wire import Client

JSON = "application/json"
NDJSON = {"Accept": "application/x-ndjson"}


def position(offset: str) -> int:
    incarnation, _, digits = offset.partition("-")
    assert (len(incarnation), len(digits)) == (16, 16), offset
    return int(digits)


def test_a_read_is_one_answer_up_to_the_tail_with_its_length(client: Client, stream: str) -> None:
    body = bytes(range(256)) * 8192  # 2 MiB: more than one piece
    client.made(stream, "application/octet-stream", body)
    answer = client.get(stream)
    assert answer.get("Content-Length") == str(len(body))
    assert answer.get("Stream-Up-To-Date") == "true"
    assert answer.body == body
    assert position(answer.offset) == len(body)


def test_a_large_json_stream_is_one_valid_array(client: Client, stream: str) -> None:
    messages = [{"n": n, "text": "x" * 500} for n in range(3000)]
    client.made(stream, JSON, json.dumps(messages))
    answer = client.get(stream)
    assert answer.get("Content-Length") == str(len(answer.body))
    assert answer.json == messages
    lines = client.get(stream, NDJSON).body.splitlines()
    assert [json.loads(line) for line in lines] == messages


def test_reading_at_the_tail_is_200_and_empty(client: Client, stream: str) -> None:
    client.made(stream, body="hello")
    client.made(f"{stream}-json", JSON, "[1]")
    for query in ("offset=now", "offset=5"):
        answer = client.get(f"{stream}?{query}")
        assert (answer.status, answer.body, answer.get("Stream-Up-To-Date")) == (200, b"", "true")
    for query in ("offset=now", "offset=2"):
        assert client.get(f"{stream}-json?{query}").body == b"[]"


def test_every_form_of_an_offset_names_its_place(client: Client, stream: str) -> None:
    end = client.made(stream, body="hello").offset
    incarnation = end.partition("-")[0]
    forms = {
        "-1": b"hello",
        "0": b"hello",
        "2": b"llo",
        "00000000000000000002": b"llo",
        f"{incarnation}-{2:016d}": b"llo",
        f"{incarnation}_{2:016d}": b"llo",
        f"{0:016d}-{2:016d}": b"llo",
        f"{0:016d}_{2:016d}": b"llo",
        end: b"",
        "now": b"",
    }
    for offset, rest in forms.items():
        answer = client.get(f"{stream}?offset={offset}")
        assert (answer.status, answer.body, answer.offset) == (200, rest, end), offset


def test_offsets_sort_as_text_in_the_order_of_the_stream(client: Client, stream: str) -> None:
    offsets = [client.made(stream).offset]
    offsets += [client.added(stream, "x" * length).offset for length in (1, 9, 90, 900)]
    assert offsets == sorted(offsets)
    assert len(set(offsets)) == 5


def test_an_appends_offset_is_where_the_next_one_begins(client: Client, stream: str) -> None:
    client.made(stream)
    first = client.added(stream, "one").offset
    client.added(stream, "two")
    assert client.get(f"{stream}?offset={first}").body == b"two"


def test_max_bytes_cuts_and_resuming_reads_the_rest(client: Client, stream: str) -> None:
    client.made(stream, body="0123456789")
    offset, pieces = "-1", []
    while True:
        answer = client.get(f"{stream}?offset={offset}&max_bytes=4")
        pieces.append(answer.body)
        offset = answer.offset
        if answer.get("Stream-Up-To-Date"):
            break
        assert answer.get("Stream-Closed") is None
    assert pieces == [b"0123", b"4567", b"89"]


def test_max_bytes_ends_between_messages_with_at_least_one(client: Client, stream: str) -> None:
    client.made(stream, JSON, '["aaaaaaaaaa","b","c","d"]')
    first = client.get(f"{stream}?max_bytes=1")
    assert first.json == ["aaaaaaaaaa"]
    assert first.get("Stream-Up-To-Date") is None
    assert client.get(f"{stream}?offset={first.offset}&max_bytes=9").json == ["b", "c"]
    assert client.get(f"{stream}?max_bytes=1000").get("Stream-Up-To-Date") == "true"


def test_a_cut_read_of_a_closed_stream_does_not_say_closed(client: Client, stream: str) -> None:
    client.made(stream, body="hello", headers={"Stream-Closed": "true"})
    assert client.get(f"{stream}?max_bytes=2").get("Stream-Closed") is None
    assert client.get(f"{stream}?offset=2&max_bytes=3").get("Stream-Closed") == "true"


def test_flags_are_never_sent_as_false(client: Client, stream: str) -> None:
    client.made(stream, body="hello")
    answers = [client.get(stream), client.head(stream), client.get(f"{stream}?max_bytes=1")]
    answers.append(client.added(stream, "x"))
    for answer in answers:
        assert answer.get("Stream-Closed") is None
        assert answer.get("Stream-Up-To-Date") in (None, "true")


# --- NDJSON -------------------------------------------------------------------------------------


def test_ndjson_is_one_message_per_line(client: Client, stream: str) -> None:
    client.made(stream, JSON, '[1, {"a":\r\n [2,\n3]}]')
    client.added(stream, '"x\\ny"', JSON)
    answer = client.get(stream, NDJSON)
    assert answer.get("Content-Type") == "application/x-ndjson"
    assert answer.body == b'1\n{"a":   [2, 3]}\n"x\\ny"\n'
    assert client.get(f"{stream}?offset=now", NDJSON).body == b""


def test_both_forms_of_a_json_read_vary_by_accept_and_have_their_own_etag(
    client: Client, stream: str
) -> None:
    client.made(stream, JSON, "[1]")
    array, lines = client.get(stream), client.get(stream, NDJSON)
    assert array.get("Vary") == lines.get("Vary") == "Accept"
    assert array.need("ETag") != lines.need("ETag")
    assert client.get(stream, {"If-None-Match": lines.need("ETag")}).status == 200
    assert client.get(stream, NDJSON | {"If-None-Match": lines.need("ETag")}).status == 304


def test_accept_weighs_what_it_names(client: Client, stream: str) -> None:
    client.made(stream, "application/json", "[1]")
    lines, array = "application/x-ndjson", "application/json"
    wanted = {lines: lines, "Application/X-NDJSON; q=0.5": lines, f"{lines}, {array}": lines, "*/*": array}
    wanted |= {f"{lines};q=0": array, f"{array}, {lines};q=0.1": array, f"{array};q=0.1,{lines}": lines}
    wanted |= {
        f"{lines}x": array,
        f"{lines};q=nonsense": lines,
        f"{lines};q=9e9": lines,
        f"{lines};;,": lines,
    }
    for accept, kind in wanted.items():
        assert client.get(stream, {"Accept": accept}).get("Content-Type") == kind, accept


def test_ndjson_is_for_json_streams_alone(client: Client, stream: str) -> None:
    client.made(stream, body="hello")
    answer = client.get(stream, NDJSON)
    assert (answer.get("Content-Type"), answer.body) == ("text/plain", b"hello")


# --- caching ------------------------------------------------------------------------------------


def test_catch_up_may_be_cached_and_everything_else_may_not(client: Client, stream: str) -> None:
    client.made(stream, body="hello")
    public = "public, max-age=60, stale-while-revalidate=300"
    read = client.get(f"{stream}?offset=-1")
    assert read.get("Cache-Control") == public
    unchanged = client.get(f"{stream}?offset=-1", {"If-None-Match": read.need("ETag")})
    assert (unchanged.status, unchanged.get("Cache-Control")) == (304, public)
    for answer in (client.head(stream), client.get(f"{stream}?offset=now"), client.added(stream, "x")):
        assert answer.get("Cache-Control") == "no-store"
    poll = client.get(f"{stream}?offset=0&live=long-poll")
    assert poll.get("Cache-Control") == "no-store"


@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}', '"other",W/{} , "more"', "*"])
def test_if_none_match_takes_lists_weak_tags_and_a_star(client: Client, stream: str, form: str) -> None:
    client.made(stream, body="hello")
    read = client.get(stream)
    unchanged = client.get(stream, {"If-None-Match": form.format(read.need("ETag"))})
    assert (unchanged.status, unchanged.body) == (304, b"")
    assert unchanged.get("ETag") == read.get("ETag")
    assert unchanged.offset == read.offset
    head = client.head(stream)
    assert client.head(stream, {"If-None-Match": form.format(head.need("ETag"))}).status == 304
    assert client.get(stream, {"If-None-Match": '"other"'}).status == 200


def test_etags_change_on_append_on_close_and_on_making_anew(client: Client, stream: str) -> None:
    seen_head, seen_get = set(), set()

    def look() -> None:
        seen_head.add(client.head(stream).need("ETag"))
        seen_get.add(client.get(stream).need("ETag"))

    client.made(stream, body="a")
    look()
    client.added(stream, "b")
    look()
    client.closed(stream)
    look()
    client.delete(stream)
    client.made(stream, body="a")
    look()
    assert len(seen_head) == len(seen_get) == 4
    assert all(etag.startswith('"') and etag.endswith('"') for etag in seen_head | seen_get)


def test_put_post_and_head_share_the_etag_of_a_state(client: Client, stream: str) -> None:
    assert client.made(stream).get("ETag") == client.head(stream).get("ETag")
    assert client.added(stream, "x").get("ETag") == client.head(stream).get("ETag")
    assert client.closed(stream).get("ETag") == client.head(stream).get("ETag")
