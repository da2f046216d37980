"""A blocking client that hides nothing: what is sent is the bytes that the test wrote.

`Wire` is one connection. `Client` opens one per request, so that it works the same at every door.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tests.http.events import Event, parse_event
from tests.support.server import HOST, Server

TIMEOUT_SECONDS = 15.0
READ_BYTES = 1 << 16

Headers = Mapping[str, str]
NO_HEADERS: Headers = {}


class Cut(AssertionError):
    """The connection ended inside an answer, or before one."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes = b""

    def get(self, name: str) -> str | None:
        """The one value of a header; a header that is there twice is a failure."""
        values = [value for known, value in self.headers if known == name.lower()]
        assert len(values) <= 1, f"{name} is there {len(values)} times"
        return values[0] if values else None

    def need(self, name: str) -> str:
        value = self.get(name)
        assert value is not None, f"{name} is missing: {self}"
        return value

    @property
    def offset(self) -> str:
        return self.need("Stream-Next-Offset")

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])

    def __str__(self) -> str:
        return f"{self.status} {dict(self.headers)} {self.body[:300]!r}"


@dataclass
class Wire:
    port: int
    tls: ssl.SSLContext | None = None
    buffer: bytes = b""
    plain: socket.socket = field(init=False)

    def __post_init__(self) -> None:
        self.plain = socket.create_connection((HOST, self.port), timeout=TIMEOUT_SECONDS)
        if self.tls is not None:
            self.plain = self.tls.wrap_socket(self.plain, server_hostname="localhost")
        self.plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        self.plain.sendall(data)

    def request(self, method: str, target: str, headers: Headers = NO_HEADERS, body: bytes = b"") -> Answer:
        self.send(encode(method, target, headers, body, self.port))
        return self.answer(method)

    def _more(self) -> bool:
        try:
            data = self.plain.recv(READ_BYTES)
        except (ConnectionError, ssl.SSLError):
            return False
        self.buffer += data
        return bool(data)

    def until(self, mark: bytes) -> bytes:
        while mark not in self.buffer:
            if not self._more():
                raise Cut(f"the connection ended; before that came {self.buffer[:500]!r}")
        found, self.buffer = self.buffer.split(mark, 1)
        return found

    def exactly(self, length: int) -> bytes:
        pieces, left = [self.buffer[:length]], length - len(self.buffer[:length])
        self.buffer = self.buffer[length:]
        while left:
            data = self.plain.recv(min(left, 1 << 20))
            if not data:
                raise Cut(f"the body ended {left} bytes early")
            pieces.append(data)
            left -= len(data)
        return b"".join(pieces)

    def head(self) -> Answer:
        first, *rest = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, *_ = first.split(" ")
        assert version == "HTTP/1.1", first
        pairs = [line.partition(":") for line in rest]
        return Answer(int(status), [(name.lower(), value.strip()) for name, _, value in pairs])

    def answer(self, method: str = "GET") -> Answer:
        head = self.head()
        return Answer(head.status, head.headers, b"".join(self.body(head, method)))

    def body(self, head: Answer, method: str = "GET") -> Iterator[bytes]:
        length = head.get("Content-Length")
        if method == "HEAD" or head.status in (204, 304) or head.status < 200:
            return
        if head.get("Transfer-Encoding") == "chunked":
            while size := int(self.until(b"\r\n"), 16):
                yield self.exactly(size + 2)[:-2]
            assert self.until(b"\r\n") == b""
        elif length is not None:
            yield self.exactly(int(length))
        else:
            while self.buffer or self._more():
                yield self.buffer
                self.buffer = b""

    def events(self, head: Answer) -> Iterator[Event]:
        """Server-sent events; a comment is an event of kind `comment`."""
        rest = b""
        for piece in self.body(head):
            *blocks, rest = (rest + piece).split(b"\n\n")
            for block in blocks:
                yield parse_event(block)
        assert rest == b"", f"half an event: {rest!r}"

    def ended(self) -> bool:
        """Whether the server hangs up without another byte."""
        return not self.buffer and not self._more()

    def request_gap(self) -> None:
        """Time for what was sent to arrive on its own: the next bytes come in another read."""
        time.sleep(0.0005)

    def close(self) -> None:
        self.plain.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def encode(method: str, target: str, headers: Headers, body: bytes, port: int) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {HOST}:{port}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body or method in ("PUT", "POST"):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class Client:
    def __init__(self, server: Server) -> None:
        self.server = server

    def __call__(
        self, method: str, target: str, headers: Headers = NO_HEADERS, body: bytes | str = b""
    ) -> Answer:
        data = body.encode() if isinstance(body, str) else body
        with self.wire() as wire:
            return wire.request(method, target, headers, data)

    def wire(self) -> Wire:
        return Wire(self.server.port)

    def get(self, target: str, headers: Headers = NO_HEADERS) -> Answer:
        return self("GET", target, headers)

    def head(self, target: str, headers: Headers = NO_HEADERS) -> Answer:
        return self("HEAD", target, headers)

    def delete(self, target: str) -> Answer:
        return self("DELETE", target)

    def put(
        self, target: str, kind: str = "text/plain", body: bytes | str = b"", headers: Headers = NO_HEADERS
    ) -> Answer:
        return self("PUT", target, {"Content-Type": kind, **headers}, body)

    def made(
        self, target: str, kind: str = "text/plain", body: bytes | str = b"", headers: Headers = NO_HEADERS
    ) -> Answer:
        """A new stream."""
        answer = self.put(target, kind, body, headers)
        assert answer.status == 201, answer
        return answer

    def post(
        self, target: str, body: bytes | str, kind: str = "text/plain", headers: Headers = NO_HEADERS
    ) -> Answer:
        return self("POST", target, {"Content-Type": kind, **headers}, body)

    def added(
        self, target: str, body: bytes | str, kind: str = "text/plain", headers: Headers = NO_HEADERS
    ) -> Answer:
        """An append that was taken."""
        answer = self.post(target, body, kind, headers)
        assert answer.status in (200, 204), answer
        return answer

    def closed(self, target: str) -> Answer:
        answer = self("POST", target, {"Stream-Closed": "true"})
        assert answer.status == 204, answer
        return answer

    def listen(self, target: str, headers: Headers = NO_HEADERS) -> tuple[Wire, Answer, Iterator[Event]]:
        """An SSE answer that has begun; the caller closes the wire."""
        wire = self.wire()
        wire.send(encode("GET", target, headers, b"", self.server.port))
        head = wire.head()
        return wire, head, wire.events(head)
