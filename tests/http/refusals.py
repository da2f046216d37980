"""One case for every refusal that a client can bring about: what it sends, and what it is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from millstream.protocol.errors import Code
from tests.http.wire import Answer, Client, Headers

JSON = "application/json"
TEXT = {"Content-Type": "text/plain"}
Given = Callable[[Client, str], object]


def producer(identity: str = "p", epoch: str = "0", seq: str = "0") -> dict[str, str]:
    return {"Producer-Id": identity, "Producer-Epoch": epoch, "Producer-Seq": seq}


def nothing(client: Client, stream: str) -> None:
    """No stream is there."""


def text(client: Client, stream: str) -> None:
    client.made(stream, body="hello")


def numbers(client: Client, stream: str) -> None:
    client.made(stream, JSON, "[1,22,333]")


def closed(client: Client, stream: str) -> None:
    client.made(stream, body="hello", headers={"Stream-Closed": "true"})


def produced(client: Client, stream: str) -> None:
    client.made(stream)
    client.added(stream, "hello", headers=producer(epoch="3"))


def sequenced(client: Client, stream: str) -> None:
    client.made(stream)
    client.added(stream, "hello", headers={"Stream-Seq": "b"})


def softly_deleted(client: Client, stream: str) -> None:
    client.made(stream, body="hello")
    client.made(f"{stream}-fork", headers={"Stream-Forked-From": stream})
    assert client.delete(stream).status == 204


def created_again(client: Client, stream: str) -> None:
    text(client, stream)
    assert client.delete(stream).status == 204
    text(client, stream)


@dataclass(frozen=True)
class Case:
    """`target` and `headers` may name the stream as {}; `offset` is where it was before."""

    code: Code
    method: str
    headers: Headers = field(default_factory=dict)
    body: bytes = b""
    given: Given = nothing
    target: str = "{}"

    def send(self, client: Client, stream: str) -> Answer:
        headers = {name: value.replace("{}", stream) for name, value in self.headers.items()}
        return client(self.method, self.target.replace("{}", stream), headers, self.body)


def post(code: Code, given: Given, body: bytes = b"x", /, **headers: str) -> Case:
    return Case(code, "POST", TEXT | named(headers), body, given)


def put(code: Code, given: Given = nothing, body: bytes = b"", /, **headers: str) -> Case:
    return Case(code, "PUT", TEXT | named(headers), body, given)


def read(code: Code, given: Given, query: str) -> Case:
    return Case(code, "GET", {}, b"", given, "{}?" + query)


def json(code: Code, body: bytes, method: str = "POST") -> Case:
    return Case(code, method, {"Content-Type": JSON}, body, numbers if method == "POST" else nothing)


def named(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


C = Code
PAST = "0000000000000000-0000000000000099"
INSIDE = "0000000000000000-0000000000000003"
ELSEWHERE = "0000000000000001-0000000000000001"

CASES: dict[str, Case] = {
    "append_to_nothing": post(C.STREAM_NOT_FOUND, nothing),
    "read_nothing": Case(C.STREAM_NOT_FOUND, "GET"),
    "delete_nothing": Case(C.STREAM_NOT_FOUND, "DELETE"),
    "no_route": Case(C.ROUTE_NOT_FOUND, "GET", target="/v1/stream"),
    "no_bucket": Case(C.BUCKET_NOT_FOUND, "GET", target="/nowhere/stream"),
    "no_method": Case(C.METHOD_NOT_ALLOWED, "PATCH", given=text),
    "bad_path": Case(C.INVALID_PATH, "PUT", target="{}//b"),
    "reserved_bucket": Case(C.RESERVED_NAME, "PUT", target="/metrics/stream"),
    "compressed": post(C.UNSUPPORTED_ENCODING, text, Content_Encoding="gzip"),
    "long_target": Case(C.URI_TOO_LONG, "GET", target="{}?" + "x" * 9000),
    # reading
    "offset_letters": read(C.INVALID_OFFSET, text, "offset=abc"),
    "offset_empty": read(C.INVALID_OFFSET, text, "offset="),
    "offset_negative": read(C.INVALID_OFFSET, text, "offset=-2"),
    "offset_21_digits": read(C.INVALID_OFFSET, text, "offset=" + "1" * 21),
    "offset_short_pair": read(C.INVALID_OFFSET, text, "offset=1-2"),
    "offset_line_break": read(C.INVALID_OFFSET, text, "offset=5%0A"),
    "offset_other_digits": read(C.INVALID_OFFSET, text, "offset=%D9%A1"),
    "offset_space": read(C.INVALID_OFFSET, text, "offset=%205"),
    "offset_past_tail": read(C.OFFSET_PAST_TAIL, text, "offset=6"),
    "offset_pair_past_tail": read(C.OFFSET_PAST_TAIL, text, f"offset={PAST}"),
    "offset_20_digits": read(C.OFFSET_PAST_TAIL, text, "offset=" + "9" * 20),
    "live_offset_past_tail": read(C.OFFSET_PAST_TAIL, text, "offset=6&live=long-poll"),
    "sse_offset_past_tail": read(C.OFFSET_PAST_TAIL, text, "offset=6&live=sse"),
    "offset_in_message": read(C.OFFSET_NOT_AT_BOUNDARY, numbers, "offset=3"),
    "live_offset_in_message": read(C.OFFSET_NOT_AT_BOUNDARY, numbers, "offset=3&live=sse"),
    "offset_of_another": read(C.OFFSET_GONE, created_again, f"offset={ELSEWHERE}"),
    "live_offset_of_another": read(C.OFFSET_GONE, created_again, f"offset={ELSEWHERE}&live=sse"),
    "live_unknown": read(C.INVALID_PARAMETER, text, "offset=-1&live=websocket"),
    "live_empty": read(C.INVALID_PARAMETER, text, "offset=-1&live="),
    "live_true": read(C.INVALID_PARAMETER, text, "offset=-1&live=true"),
    "long_poll_without_offset": read(C.INVALID_PARAMETER, text, "live=long-poll"),
    "sse_without_offset": read(C.INVALID_PARAMETER, text, "live=sse"),
    "cursor_without_offset": read(C.INVALID_PARAMETER, text, "cursor=5"),
    "offset_twice": read(C.INVALID_PARAMETER, text, "offset=-1&offset=-1"),
    "offset_twice_escaped": read(C.INVALID_PARAMETER, text, "offset=-1&%6Fffset=0"),
    "live_twice": read(C.INVALID_PARAMETER, text, "offset=-1&live=sse&live=sse"),
    "cursor_twice": read(C.INVALID_PARAMETER, text, "offset=-1&cursor=1&cursor=1"),
    "max_bytes_twice": read(C.INVALID_PARAMETER, text, "max_bytes=1&max_bytes=1"),
    "max_bytes_zero": read(C.INVALID_PARAMETER, text, "max_bytes=0"),
    "max_bytes_negative": read(C.INVALID_PARAMETER, text, "max_bytes=-1"),
    "max_bytes_letters": read(C.INVALID_PARAMETER, text, "max_bytes=1k"),
    "max_bytes_huge": read(C.INVALID_PARAMETER, text, "max_bytes=" + "9" * 30),
    "query_no_utf_8": read(C.INVALID_PARAMETER, text, "offset=%ff"),
    "read_softly_deleted": Case(C.STREAM_GONE, "GET", given=softly_deleted),
    "append_softly_deleted": post(C.STREAM_GONE, softly_deleted),
    "delete_softly_deleted": Case(C.STREAM_GONE, "DELETE", given=softly_deleted),
    "create_softly_deleted": put(C.STREAM_DELETED_WITH_FORKS, softly_deleted),
    # appending
    "empty_append": post(C.EMPTY_BODY, text, b""),
    "append_without_type": Case(C.CONTENT_TYPE_REQUIRED, "POST", {}, b"x", text),
    "append_another_type": Case(C.CONTENT_TYPE_MISMATCH, "POST", {"Content-Type": "text/html"}, b"x", text),
    "append_malformed_type": Case(
        C.CONTENT_TYPE_MISMATCH, "POST", {"Content-Type": "no media type"}, b"x", text
    ),
    "append_to_closed": post(C.STREAM_CLOSED, closed),
    "append_another_type_to_closed": Case(
        C.STREAM_CLOSED, "POST", {"Content-Type": "text/html"}, b"x", closed
    ),
    "seq_back": post(C.STREAM_SEQ_REGRESSION, sequenced, Stream_Seq="a"),
    "seq_again": post(C.STREAM_SEQ_REGRESSION, sequenced, Stream_Seq="b"),
    "seq_empty": post(C.INVALID_HEADER, text, Stream_Seq=""),
    "seq_long": post(C.INVALID_HEADER, text, Stream_Seq="x" * 513),
    "match_nothing": post(C.PRECONDITION_FAILED, text, If_Match='"0-0"'),
    "match_weakly": post(C.PRECONDITION_FAILED, text, If_Match='W/"0-0"'),
    "match_garbage": post(C.PRECONDITION_FAILED, text, If_Match="garbage"),
    "producer_alone": post(C.INVALID_PRODUCER, text, Producer_Id="p"),
    "producer_without_seq": post(C.INVALID_PRODUCER, text, Producer_Id="p", Producer_Epoch="0"),
    "producer_without_id": post(C.INVALID_PRODUCER, text, Producer_Epoch="0", Producer_Seq="0"),
    "producer_empty": post(C.INVALID_PRODUCER, text, **producer("")),
    "producer_long": post(C.INVALID_PRODUCER, text, **producer("x" * 513)),
    "producer_epoch_letters": post(C.INVALID_PRODUCER, text, **producer(epoch="x")),
    "producer_epoch_negative": post(C.INVALID_PRODUCER, text, **producer(epoch="-1")),
    "producer_seq_fraction": post(C.INVALID_PRODUCER, text, **producer(seq="1.0")),
    "producer_seq_beyond_js": post(C.INVALID_PRODUCER, text, **producer(seq="9007199254740992")),
    "producer_seq_other_digits": post(C.INVALID_PRODUCER, text, **producer(seq="\xb2")),
    "producer_gap": post(C.PRODUCER_GAP, produced, **producer(epoch="3", seq="5")),
    "producer_unknown_gap": post(C.PRODUCER_GAP, text, **producer(seq="1")),
    "producer_stale": post(C.STALE_EPOCH, produced, **producer(epoch="2", seq="1")),
    "producer_epoch_start": post(C.PRODUCER_EPOCH_START, produced, **producer(epoch="4", seq="1")),
    # JSON
    "json_empty_array": json(C.EMPTY_ARRAY, b" [ ] "),
    "json_half": json(C.INVALID_JSON, b'[1,2,{"a":'),
    "json_trailing_comma": json(C.INVALID_JSON, b"[1,2,]"),
    "json_two_values": json(C.INVALID_JSON, b"1 2"),
    "json_nan": json(C.INVALID_JSON, b"NaN"),
    "json_leading_zero": json(C.INVALID_JSON, b"[01]"),
    "json_single_quotes": json(C.INVALID_JSON, b"{'a':1}"),
    "json_comment": json(C.INVALID_JSON, b"[1 /* one */]"),
    "json_control_character": json(C.INVALID_JSON, b'"a\x01b"'),
    "json_bad_escape": json(C.INVALID_JSON, b'"\\x41"'),
    "json_no_utf_8": json(C.INVALID_JSON, b'"\xff"'),
    "json_byte_order_mark": json(C.INVALID_JSON, b"\xef\xbb\xbf1"),
    "json_only_space": json(C.INVALID_JSON, b"   "),
    "json_deep": json(C.INVALID_JSON, b"[" * 200_000 + b"]" * 200_000),
    "json_deep_objects": json(C.INVALID_JSON, b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "json_deep_with_surrogate": json(C.INVALID_JSON, b'["\\ud83d",' + b"[" * 200_000),
    "json_many": json(C.TOO_MANY_MESSAGES, b"[" + b"1," * 250_000 + b"1]"),
    "json_bad_on_create": json(C.INVALID_JSON, b"{", "PUT"),
    # creating
    "exists_another_type": Case(C.STREAM_EXISTS, "PUT", {"Content-Type": "text/html"}, b"", text),
    "exists_with_ttl": put(C.STREAM_EXISTS, text, Stream_TTL="60"),
    "exists_open": put(C.STREAM_EXISTS, closed),
    "exists_closed": put(C.STREAM_EXISTS, text, Stream_Closed="true"),
    "type_no_media_type": Case(C.INVALID_CONTENT_TYPE, "PUT", {"Content-Type": "text"}),
    "type_long": Case(C.INVALID_CONTENT_TYPE, "PUT", {"Content-Type": f"text/{'x' * 300}"}),
    **{
        f"ttl_{name}": put(C.INVALID_HEADER, Stream_TTL=value)
        for name, value in {
            "negative": "-1",
            "signed": "+1",
            "fraction": "1.5",
            "exponent": "1e3",
            "leading_zero": "060",
            "letters": "1h",
            "empty": "",
            "huge": "9" * 30,
            "other_digits": "\xb2",
        }.items()
    },
    **{
        f"expires_{name}": put(C.INVALID_HEADER, Stream_Expires_At=value)
        for name, value in {
            "date": "2030-01-01",
            "no_zone": "2030-01-01T00:00:00",
            "space": "2030-01-01 00:00:00Z",
            "month_13": "2030-13-01T00:00:00Z",
            "hour_24": "2030-01-01T24:00:00Z",
            "zone_24": "2030-01-01T00:00:00+24:00",
            "http_date": "Tue, 01 Jan 2030 00:00:00 GMT",
            "number": "1893456000",
            "empty": "",
        }.items()
    },
    "ttl_and_expires": put(C.INVALID_HEADER, Stream_TTL="60", Stream_Expires_At="2030-01-01T00:00:00Z"),
    "match_on_create": put(C.PRECONDITION_FAILED, If_Match="*"),
    "match_on_create_another": put(C.PRECONDITION_FAILED, text, If_Match='"0-0"'),
}
