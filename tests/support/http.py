"""A raw HTTP/1.1 client: small enough to be sure what was sent when, and fast enough for a crash test.

A `Connection` answers requests in the order they were sent; `send` does not wait, so requests can be
pipelined. When the connection breaks, every request without a complete answer fails with `Lost`, which
carries whatever part of an answer was there: bytes that were seen, however briefly, count.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

HEAD_BYTES_MAX = 64 * 1024
READ_BYTES = 64 * 1024


class Lost(ConnectionError):
    """The connection ended before the answer did. What came of the request is unknown."""

    def __init__(self, reason: str, head: Head | None = None, partial: bytes = b"") -> None:
        super().__init__(reason)
        self.head = head
        self.partial = partial


@dataclass(frozen=True, slots=True)
class Head:
    status: int
    headers: Mapping[str, str]

    def get(self, name: str) -> str | None:
        return self.headers.get(name.lower())


@dataclass(frozen=True, slots=True)
class Response:
    head: Head
    body: bytes

    @property
    def status(self) -> int:
        return self.head.status

    def get(self, name: str) -> str | None:
        return self.head.get(name)

    def __str__(self) -> str:
        return f"{self.status} {dict(self.head.headers)} {self.body[:300]!r}"


@dataclass(slots=True)
class Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    host: str
    waiting: deque[tuple[str, asyncio.Future[Response]]] = field(default_factory=deque)
    pump: asyncio.Task[None] | None = None
    broken: bool = False

    @classmethod
    async def open(cls, host: str, port: int) -> Connection:
        reader, writer = await asyncio.open_connection(host, port, limit=HEAD_BYTES_MAX)
        self = cls(reader, writer, f"{host}:{port}")
        self.pump = asyncio.create_task(self._pump())
        return self

    def send(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> asyncio.Future[Response]:
        """Writes the request now; the answer comes in the future. Awaiting it is the caller's duty."""
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        if self.broken:
            answer.set_exception(Lost("the connection is broken"))
            return answer
        self.waiting.append((method, answer))
        self.writer.write(encode_request(method, target, self.host, headers or {}, body))
        return answer

    async def request(
        self, method: str, target: str, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Response:
        return await self.send(method, target, headers, body)

    async def close(self) -> None:
        self.broken = True
        if self.pump is not None:
            self.pump.cancel()
            await asyncio.gather(self.pump, return_exceptions=True)
        self._fail(Lost("closed by this side"))
        await close_writer(self.writer)

    async def _pump(self) -> None:
        try:
            while True:
                head = await read_head(self.reader)
                if head.status < 200:
                    continue
                if not self.waiting:
                    raise Lost(f"an answer that nobody asked for: {head}")
                method, answer = self.waiting[0]
                pieces: list[bytes] = []
                try:
                    async for piece in read_body(self.reader, head, method):
                        pieces.append(piece)
                except Lost as lost:
                    raise Lost(str(lost), head, b"".join(pieces) + lost.partial) from None
                self.waiting.popleft()
                if not answer.done():
                    answer.set_result(Response(head, b"".join(pieces)))
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            self.broken = True
            self._fail(error if isinstance(error, Lost) else Lost(f"{type(error).__name__}: {error}"))

    def _fail(self, error: Lost) -> None:
        """The first request waiting gets what was there of its answer, the ones behind it nothing."""
        while self.waiting:
            _, answer = self.waiting.popleft()
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # nobody may be looking any more: not worth a warning
            error = Lost(str(error))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def encode_request(method: str, target: str, host: str, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}"]
    lines.extend(f"{name}: {value}" for name, value in headers.items())
    if body or method in ("POST", "PUT"):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


async def read_head(reader: asyncio.StreamReader) -> Head:
    raw = await reader.readuntil(b"\r\n\r\n")
    first, *rest = raw[:-4].decode("latin-1").split("\r\n")
    version, status, *_ = first.split(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError(f"no HTTP: {first!r}")
    headers: dict[str, str] = {}
    for line in rest:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return Head(int(status), headers)


async def read_body(reader: asyncio.StreamReader, head: Head, method: str) -> AsyncIterator[bytes]:
    """The body, piece by piece as it comes; raises Lost, with the last piece, when it is cut off."""
    if method == "HEAD" or head.status in (204, 304):
        return
    if "chunked" in (head.get("transfer-encoding") or "").lower():
        async for piece in _read_chunks(reader):
            yield piece
    elif (length := head.get("content-length")) is not None:
        remaining = int(length)
        while remaining:
            piece = await reader.read(min(remaining, READ_BYTES))
            if not piece:
                raise Lost(f"the body was cut off {remaining} bytes before its end")
            remaining -= len(piece)
            yield piece
    else:
        while piece := await reader.read(READ_BYTES):
            yield piece


async def _read_chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    try:
        while True:
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            if size == 0:
                while await reader.readuntil(b"\r\n") != b"\r\n":
                    pass
                return
            piece = await reader.readexactly(size + 2)
            yield piece[:-2]
    except asyncio.IncompleteReadError as error:
        raise Lost("a chunked body was cut off", partial=b"") from error


async def close_writer(writer: asyncio.StreamWriter) -> None:
    writer.close()
    try:
        await asyncio.wait_for(writer.wait_closed(), timeout=5)
    except (OSError, TimeoutError):
        writer.transport.abort()
