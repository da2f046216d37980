"""What two servers could read in two ways is refused, and nothing behind it is read."""

from __future__ import annotations

import pytest

from tests.http.wire import Client

# Each is a POST whose framing is doubtful; {} is the stream. A request behind it must never be answered.
HEAD = "POST {} HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\n"
DOUBTFUL = {
    "both_lengths": "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both_lengths_coding_first": "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two_different_lengths": "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "two_equal_lengths": "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "a_list_of_lengths": "Content-Length: 5, 5\r\n\r\nhello",
    "a_negative_length": "Content-Length: -5\r\n\r\nhello",
    "a_signed_length": "Content-Length: +5\r\n\r\nhello",
    "a_hexadecimal_length": "Content-Length: 0x5\r\n\r\nhello",
    "a_fractional_length": "Content-Length: 5.0\r\n\r\nhello",
    "an_empty_length": "Content-Length:\r\n\r\nhello",
    "a_length_beyond_64_bits": "Content-Length: 18446744073709551621\r\n\r\nhello",
    "a_length_of_thousands_of_digits": f"Content-Length: {'0' * 5000}5\r\n\r\nhello",
    "an_unknown_coding": "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked_twice": "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "chunked_in_two_lines": "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "identity": "Transfer-Encoding: identity\r\n\r\nhello",
    "identity_beside_chunked": "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "gzip_then_chunked": "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked_then_gzip": "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "an_empty_coding": "Transfer-Encoding:\r\n\r\n0\r\n\r\n",
    "a_quoted_coding": 'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n',
    "a_vertical_tab_in_the_coding": "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "a_folded_coding": "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a_folded_header": "X-A: b\r\n c\r\nContent-Length: 5\r\n\r\nhello",
    "a_line_feed_alone_in_the_head": "X-A: b\nContent-Length: 5\r\n\r\nhello",
    "a_carriage_return_alone_in_the_head": "X-A: b\rContent-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
    "a_space_before_the_colon": "Content-Length : 5\r\n\r\nhello",
    "a_space_before_the_first_header": " Content-Length: 5\r\n\r\nhello",
    "a_nul_in_a_header": "X-A: a\0b\r\nContent-Length: 5\r\n\r\nhello",
    "a_nul_in_a_name": "X\0A: b\r\nContent-Length: 5\r\n\r\nhello",
    "a_header_without_a_name": ": b\r\nContent-Length: 5\r\n\r\nhello",
    "a_header_without_a_colon": "Content-Length\r\nContent-Length: 5\r\n\r\nhello",
    "two_hosts": "Host: y\r\nContent-Length: 5\r\n\r\nhello",
}
CHUNK = "Transfer-Encoding: chunked\r\n\r\n"
BAD_CHUNKS = {
    "no_size": "\r\nhello\r\n0\r\n\r\n",
    "no_hexadecimal_size": "g\r\nhello\r\n0\r\n\r\n",
    "a_negative_size": "-5\r\nhello\r\n0\r\n\r\n",
    "a_signed_size": "+5\r\nhello\r\n0\r\n\r\n",
    "a_size_with_0x": "0x5\r\nhello\r\n0\r\n\r\n",
    "a_size_with_an_underscore": "0_5\r\nhello\r\n0\r\n\r\n",
    "a_space_before_the_size": " 5\r\nhello\r\n0\r\n\r\n",
    "a_size_beyond_64_bits": "10000000000000005\r\nhello\r\n0\r\n\r\n",
    "a_size_line_without_end": "0" * 400,
    "an_endless_extension": "5;" + "x" * 400 + "\r\nhello\r\n0\r\n\r\n",
    "a_size_line_ended_by_line_feed": "5\nhello\r\n0\r\n\r\n",
    "a_carriage_return_in_the_size_line": "5\r\r\nhello\r\n0\r\n\r\n",
    "a_line_feed_in_the_extension": "5;a\nb\r\nhello\r\n0\r\n\r\n",
    "no_line_break_after_the_data": "5\r\nhello0\r\n\r\n",
    "a_line_feed_after_the_data": "5\r\nhello\n0\r\n\r\n",
    "more_data_than_the_size": "3\r\nhello\r\n0\r\n\r\n",
    "a_last_chunk_ended_by_line_feed": "5\r\nhello\r\n0\n\n",
    "trailers_without_end": "0\r\n" + "X-T: y\r\n" * 2000,
    "a_folded_trailer": "0\r\nX-T: y\r\n z\r\n\r\n",
    "a_trailer_with_a_line_feed_alone": "0\r\nX-T: y\nX-U: z\r\n\r\n",
}
CASES = DOUBTFUL | {name: CHUNK + body for name, body in BAD_CHUNKS.items()}
BEHIND = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("name", CASES)
def test_doubtful_framing_is_refused_with_400_and_the_end_of_the_connection(
    native: Client, stream: str, name: str
) -> None:
    before = native.made(stream).offset
    with native.wire() as wire:
        wire.send((HEAD.format(stream) + CASES[name] + BEHIND).encode("latin-1"))
        answer = wire.answer()
        assert answer.status == 400, answer
        assert answer.code in ("invalid_request", "invalid_header"), answer
        assert answer.get("Connection") == "close"
        assert answer.get("X-Content-Type-Options") == "nosniff"
        assert wire.ended(), "nothing behind it is answered"
    assert native.head(stream).offset == before, "nothing is left behind"


@pytest.mark.parametrize("headers", ["", "Connection: keep-alive\r\n"])
def test_chunked_over_http_1_0_is_refused(native: Client, stream: str, headers: str) -> None:
    native.made(stream)
    head = HEAD.format(stream).replace("HTTP/1.1", "HTTP/1.0") + headers
    with native.wire() as wire:
        wire.send((head + CHUNK + "5\r\nhello\r\n0\r\n\r\n").encode())
        assert wire.answer().status == 400
        assert wire.ended()
    assert native.get(stream).body == b""


FIRST_LINES = {
    "no_version": "GET /healthz",
    "an_unknown_version": "GET /healthz HTTP/1.2",
    "a_version_in_lower_case": "GET /healthz http/1.1",
    "a_space_in_the_target": "GET /heal thz HTTP/1.1",
    "a_control_character_in_the_target": "GET /heal\x01thz HTTP/1.1",
    "raw_utf_8_in_the_target": "GET /heal\xc3\xa4 HTTP/1.1",
    "a_fragment_in_the_target": "GET /healthz#part HTTP/1.1",
    "an_unknown_scheme": "GET ftp://x/healthz HTTP/1.1",
    "a_target_without_a_slash": "GET healthz HTTP/1.1",
    "no_http_at_all": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}


@pytest.mark.parametrize("name", FIRST_LINES)
def test_a_first_line_that_is_no_http_is_refused(native: Client, name: str) -> None:
    with native.wire() as wire:
        wire.send(f"{FIRST_LINES[name]}\r\nHost: x\r\n\r\n{BEHIND}".encode("latin-1"))
        answer = wire.answer()
        assert answer.status in (400, 505), answer
        assert answer.get("Content-Type") == "application/json"
        assert wire.ended()


def test_a_missing_host_is_refused(native: Client) -> None:
    for lines in ("", "Host:\r\n"):
        with native.wire() as wire:
            wire.send(f"GET /healthz HTTP/1.1\r\n{lines}\r\n{BEHIND}".encode())
            assert wire.answer().status == 400
            assert wire.ended()


def test_an_http_2_preface_is_refused(native: Client) -> None:
    with native.wire() as wire:
        wire.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
        assert wire.answer().status == 505
        assert wire.ended()


def test_the_absolute_form_of_a_target_names_the_same_stream(native: Client, stream: str) -> None:
    native.made(stream, body="hello")
    for origin in ("http://x", "https://elsewhere:99", "HTTP://x"):
        assert native.get(f"{origin}{stream}?offset=-1").body == b"hello", origin


def test_spaces_around_a_length_do_not_matter(native: Client, stream: str) -> None:
    native.made(stream)
    with native.wire() as wire:
        wire.send(f"{HEAD.format(stream)}Content-Length: \t5 \t\r\n\r\nhello".encode())
        assert wire.answer().status == 204
