"""The ASGI door: the same handlers under uvicorn, granian, or mounted in somebody's application.

A handler answers through callbacks; here its pieces go through a short queue to the server's
`send`, and `writable` is false while the queue is full.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from millstream.protocol.errors import Code, MillstreamError

from .app import App
from .failures import BODIES_FULL, body_too_large, send_error, uri_too_long
from .request import Head, HeaderBlock, collect_headers

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

QUEUED_BYTES_MAX = 512 << 10


class AsgiLimits(Struct, frozen=True):
    uri_bytes: int
    body_bytes: int
    bodies_bytes: int


class AsgiReply:
    def __init__(self, method: str) -> None:
        self._is_head = method == "HEAD"
        self.on_writable: Callable[[], None] | None = None
        self.on_close: Callable[[], None] | None = None
        self._messages: deque[Message] = deque()
        self._queued = 0
        self._more = asyncio.Event()
        self._finished = False
        self._aborted = False
        self.gone = False

    @property
    def writable(self) -> bool:
        return not self.gone and self._queued < QUEUED_BYTES_MAX

    def _put(self, message: Message) -> None:
        self._messages.append(message)
        self._queued += len(message.get("body", b""))
        self._more.set()

    def _start(self, status: int, block: bytes, length: int | None) -> None:
        headers = [
            (name.strip().lower(), value.strip())
            for name, _, value in (line.partition(b":") for line in block.split(b"\r\n") if line)
        ]
        if length is not None:
            headers.append((b"content-length", b"%d" % length))
        self._put({"type": "http.response.start", "status": status, "headers": headers})

    def send(self, status: int, headers: bytes, body: bytes = b"") -> None:
        bodyless = status in (204, 304) or (self._is_head and not body)
        self._start(status, headers, None if bodyless else len(body))
        self._put({"type": "http.response.body", "body": b"" if bodyless or self._is_head else body})
        self._finish()

    def begin(self, status: int, headers: bytes, length: int | None) -> None:
        self._start(status, headers, length)

    def write(self, data: bytes) -> None:
        if data:
            self._put({"type": "http.response.body", "body": data, "more_body": True})

    def end(self) -> None:
        self._put({"type": "http.response.body", "body": b""})
        self._finish()

    def abort(self) -> None:
        self._aborted = True
        self._finish()

    def _finish(self) -> None:
        self._finished = True
        self.on_close = self.on_writable = None
        self._more.set()

    def lost(self) -> None:
        """The client has gone."""
        self.gone = True
        if self.on_close is not None:
            self.on_close()
        self._finish()

    async def deliver(self, send: Send) -> None:
        while True:
            while self._messages:
                message = self._messages.popleft()
                await send(message)
                self._queued -= len(message.get("body", b""))
                if self.on_writable is not None and self.writable:
                    self.on_writable()
            if self._finished:
                break
            self._more.clear()
            await self._more.wait()
        if self._aborted:
            raise ConnectionAbortedError("the answer cannot be finished")


class AsgiDoor:
    def __init__(self, app: App, limits: AsgiLimits) -> None:
        self._app, self._limits = app, limits
        self._bodies_held = 0  # bytes of bodies, until they are answered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply = AsgiReply(scope["method"])
        pieces: list[bytes] = []
        try:
            await self._answer(reply, scope, pieces, receive, send)
        finally:
            self._bodies_held -= sum(map(len, pieces))

    async def _answer(
        self, reply: AsgiReply, scope: Scope, pieces: list[bytes], receive: Receive, send: Send
    ) -> None:
        try:
            head = self._head(scope)
            if not await self._receive(head, pieces, receive):
                return None
        except MillstreamError as error:
            send_error(reply, error)
            return await reply.deliver(send)
        body = b"".join(pieces)
        watcher = asyncio.create_task(self._watch(reply, receive))
        try:
            self._app.handle(head, body, reply)
            await reply.deliver(send)
        finally:
            watcher.cancel()
            if not reply.gone:
                reply.lost()

    async def _watch(self, reply: AsgiReply, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        reply.lost()

    def _head(self, scope: Scope) -> Head:
        raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
        query: bytes = scope.get("query_string", b"")
        if len(raw) + len(query) + 1 > self._limits.uri_bytes:
            raise uri_too_long(self._limits.uri_bytes)
        root = quote(scope.get("root_path", "")).encode().rstrip(b"/")
        path = raw[len(root) :] if root and raw.startswith(root + b"/") else raw
        head = Head(
            scope["method"],
            path,
            query,
            HeaderBlock(collect_headers(scope["headers"])),
            scope.get("scheme", "http"),
        )
        head.full_path = raw
        return head

    async def _receive(self, head: Head, pieces: list[bytes], receive: Receive) -> bool:
        """The whole body; False when the client went away before its end."""
        limit = self._limits.body_bytes
        declared = head.headers.get("content-length", "")
        if declared.isascii() and declared.isdigit() and int(declared[:16]) > limit:
            raise body_too_large(limit)
        length, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return False
            piece = message.get("body", b"")
            length += len(piece)
            if length > limit:
                raise body_too_large(limit)
            pieces.append(piece)
            self._bodies_held += len(piece)
            if self._bodies_held > self._limits.bodies_bytes and length < self._bodies_held:
                raise MillstreamError(Code.OVERLOADED, BODIES_FULL)
            more = message.get("more_body", False)
        return True
