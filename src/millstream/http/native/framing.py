"""From bytes to requests: where a head ends, what it says, and how its body is framed. Sans-I/O.

httptools (llhttp) judges the head; what would let two servers disagree about where a request ends
is refused on top: both length headers, a transfer coding other than `chunked`, a bad chunk.
What comes again byte for byte is kept parsed: whole heads, and header blocks.
"""

from __future__ import annotations

import re

import httptools

from millstream.http.failures import body_too_large, uri_too_long
from millstream.http.request import Head, HeaderBlock, collect_headers
from millstream.protocol.errors import Code, MillstreamError, Refused

HEADS_MAX = 8192  # whole heads kept: the same request for the same stream
BLOCKS_MAX = 4096  # header blocks kept: the same client, whatever the stream
KEPT_BYTES_MAX = 1024  # longer ones are parsed each time
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]{0,256})?\r\n")
_TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\r\n\0]*")
_LINE = re.compile(rb"(GET|POST|PUT|DELETE|HEAD|OPTIONS) (/[!\x22$-~]*) HTTP/1\.1")
_CHUNK_LINE_MAX = 300
_TRAILER_BYTES_MAX = 8192


class _Collector:
    def __init__(self) -> None:
        self.url = b""
        self.pairs: list[tuple[bytes, bytes]] = []
        self.complete = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.pairs.append((name, value))

    def on_headers_complete(self) -> None:
        self.complete = True


class Heads:
    """Parses heads, and keeps what comes again: whole heads, and header blocks by themselves.

    A kept block stands only for bytes that httptools has judged; what then differs is the request
    line, and a plain one (`_LINE`) needs no second opinion.
    """

    def __init__(self, scheme: str, uri_bytes_max: int) -> None:
        self._scheme, self._uri_bytes_max = scheme, uri_bytes_max
        self._heads: dict[bytes, Head] = {}
        self._seen: set[int] = set()
        self._blocks: dict[bytes, HeaderBlock] = {}

    def get(self, raw: bytes) -> Head:
        head = self._heads.get(raw)
        if head is None:
            head = self._assemble(raw)
            if len(raw) <= KEPT_BYTES_MAX:
                self._keep(raw, head)
        return head

    def _keep(self, raw: bytes, head: Head) -> None:
        """A head is kept when it comes for the second time: most never do."""
        mark = hash(raw)
        if mark in self._seen:
            if len(self._heads) >= HEADS_MAX:
                self._heads.clear()
            self._heads[raw] = head
        else:
            if len(self._seen) >= HEADS_MAX:
                self._seen.clear()
            self._seen.add(mark)

    def _assemble(self, raw: bytes) -> Head:
        line, _, rest = raw.partition(b"\r\n")
        block = self._blocks.get(rest)
        match = _LINE.fullmatch(line) if block is not None else None
        if block is None or match is None:
            head = self._parse(raw)
            if len(rest) <= KEPT_BYTES_MAX and not head.block.http_10:
                if len(self._blocks) >= BLOCKS_MAX:
                    self._blocks.clear()
                self._blocks[rest] = head.block
            return head
        target = match[2]
        if len(target) > self._uri_bytes_max:
            raise uri_too_long(self._uri_bytes_max)
        path, _, query = target.partition(b"?")
        return Head(match[1].decode(), path, query, block, self._scheme)

    def _parse(self, raw: bytes) -> Head:
        collector = _Collector()
        parser = httptools.HttpRequestParser(collector)
        try:
            parser.feed_data(raw)
        except httptools.HttpParserUpgrade:
            pass  # an offer to upgrade may be ignored
        except httptools.HttpParserError as error:
            raise Refused(Code.INVALID_REQUEST, f"This is no HTTP request: {error}.") from None
        version = parser.get_http_version()
        if version not in ("1.0", "1.1"):
            raise MillstreamError(Code.HTTP_VERSION)
        if not collector.complete:
            raise Refused(Code.INVALID_REQUEST, "This is no HTTP request.")
        if len(collector.url) > self._uri_bytes_max:
            raise uri_too_long(self._uri_bytes_max)
        if b"#" in collector.url:
            raise Refused(Code.INVALID_REQUEST, "The request target has a fragment.")
        headers = collect_headers(collector.pairs)
        path, _, query = collector.url.partition(b"?")
        if not path.startswith(b"/") and path != b"*":
            path = _path_of_absolute(path)
        block = HeaderBlock(headers)
        block.http_10 = version == "1.0"
        if not block.http_10 and not headers.get("host"):
            raise Refused(Code.INVALID_REQUEST, "The Host header is missing.")
        block.keep_alive = parser.should_keep_alive() and "close" not in headers.get("connection", "").lower()
        _frame(block, collector.pairs)
        return Head(parser.get_method().decode("latin-1"), path, query, block, self._scheme)


def _path_of_absolute(target: bytes) -> bytes:
    scheme, separator, rest = target.partition(b"://")
    if not separator or scheme.lower() not in (b"http", b"https"):
        raise Refused(Code.INVALID_REQUEST, "The request target is no path.")
    return b"/" + rest.partition(b"/")[2]


def _frame(block: HeaderBlock, pairs: list[tuple[bytes, bytes]]) -> None:
    lengths = [value.strip(b" \t") for name, value in pairs if name.lower() == b"content-length"]
    codings = [value for name, value in pairs if name.lower() == b"transfer-encoding"]
    block.chunked = bool(codings)
    if codings:
        if lengths:
            raise Refused(Code.INVALID_REQUEST, "Content-Length and Transfer-Encoding exclude each other.")
        if len(codings) > 1 or codings[0].strip().lower() != b"chunked" or block.http_10:
            raise Refused(Code.INVALID_REQUEST, "The only transfer coding is 'chunked', on HTTP/1.1.")
    elif lengths:
        if len(lengths) > 1 or not lengths[0].isdigit() or len(lengths[0]) > 15:
            raise Refused(Code.INVALID_REQUEST, "Content-Length is one whole number.")
        block.length = int(lengths[0])
    expect = block.values.get("expect", "").lower()
    if expect not in ("", "100-continue"):
        raise Refused(Code.EXPECTATION_FAILED)
    block.expects_continue = bool(expect) and not block.http_10


class ChunkedBody:
    """Takes the bytes of a chunked body; `feed` says how many it used, `done` when it is whole."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._body = bytearray()  # a list of pieces could cost twenty times its bytes
        self._length = 0
        self._left = -1  # bytes left in the chunk; -1: a size line comes next; -2: trailers
        self._trailer_bytes = 0
        self.done = False

    def body(self) -> bytes:
        return bytes(self._body)

    def feed(self, data: bytes) -> int:
        at = 0
        while not self.done:
            if self._left == -1:
                used = self._size_line(data, at)
            elif self._left == -2:
                used = self._trailer(data, at)
            else:
                used = self._chunk(data, at)
            if not used:
                break
            at += used
        return at

    def _size_line(self, data: bytes, at: int) -> int:
        end = data.find(b"\n", at, at + _CHUNK_LINE_MAX)
        if end < 0:
            if len(data) - at >= _CHUNK_LINE_MAX:
                raise _bad_chunk()
            return 0
        match = _CHUNK_SIZE.fullmatch(data, at, end + 1)
        if match is None:
            raise _bad_chunk()
        size = int(match[1], 16)
        self._length += size
        if self._length > self._bytes_max:
            raise body_too_large(self._bytes_max)
        self._left = size if size else -2
        return end + 1 - at

    def _chunk(self, data: bytes, at: int) -> int:
        if self._left:
            piece = data[at : at + self._left]
            self._left -= len(piece)
            self._body += piece
            return len(piece)
        if len(data) - at < 2:
            return 0
        if data[at : at + 2] != b"\r\n":
            raise _bad_chunk()
        self._left = -1
        return 2

    def _trailer(self, data: bytes, at: int) -> int:
        end = data.find(b"\r\n", at)
        if end < 0:
            if len(data) - at > _TRAILER_BYTES_MAX:
                raise _bad_chunk()
            return 0
        used = end + 2 - at
        self._trailer_bytes += used
        if self._trailer_bytes > _TRAILER_BYTES_MAX:
            raise _bad_chunk()
        self.done = used == 2
        if not self.done and not _TRAILER.fullmatch(data, at, end):
            raise _bad_chunk()
        return used


def _bad_chunk() -> Refused:
    return Refused(Code.INVALID_REQUEST, "The chunked body is malformed.")
