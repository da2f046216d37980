"""One client connection: requests in, one at a time, answers out in order.

A pipelined request waits in `_buffer` until the one before it is answered. The connection is the
`Reply` of the request that is being answered. Reading stops while too much waits; writing follows
the transport's flow control (`writable`, `on_writable`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from millstream.http.failures import BODIES_FULL, body_too_large, send_error
from millstream.http.request import Head
from millstream.protocol.errors import Code, MillstreamError, Refused

from .framing import ChunkedBody
from .sockets import LARGE_ANSWER_BYTES, fit_send_buffer
from .status import STATUS_LINES

if TYPE_CHECKING:
    from .server import NativeServer

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_CLOSE = b"Connection: close\r\n"
_CHUNKED = b"Transfer-Encoding: chunked\r\n"
_NEVER = float("inf")
_BODYLESS = frozenset({204, 304})


def _nowhere(data: bytes) -> None:
    """Where a lost connection writes to."""


class Connection(asyncio.Protocol):
    def __init__(self, server: NativeServer) -> None:
        self._server = server
        self._heads = server.heads
        self._handle = server.app.handle
        self._transport: asyncio.Transport | None = None
        self._write: Callable[[bytes], None] = _nowhere
        self._buffer = b""
        self._head: Head | None = None  # of the request whose body or answer is under way
        self._pieces: list[bytes] = []  # of a body with a length
        self._missing = 0
        self._held = 0
        self._chunks: ChunkedBody | None = None
        self._answering = False
        self._left: int | None = None
        self._parsing = False
        self._closing = False
        self._draining = False
        self._fitted = False
        self._paused_reading = False
        self.writable = True
        self.on_writable: Callable[[], None] | None = None
        self.on_close: Callable[[], None] | None = None
        self.deadline = _NEVER  # looked at by the server's ticker

    # --- transport ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        self._write = self._transport.write
        self._transport.set_write_buffer_limits(high=self._server.limits.write_buffer_bytes)
        self._server.connections.add(self)
        self.deadline = self._server.now + self._server.limits.head_seconds
        if len(self._server.connections) > self._server.limits.connections:
            self._refuse(MillstreamError(Code.OVERLOADED, "The server has as many connections as it takes."))

    def connection_lost(self, error: Exception | None) -> None:
        self._server.connections.discard(self)
        self._let_go()
        self._transport = None
        self._write = _nowhere  # no cycle with the transport is left behind
        self._closing = True
        self.writable = False
        if self.on_close is not None:
            self.on_close()
        self.on_close = self.on_writable = None

    def pause_writing(self) -> None:
        self.writable = False
        self.deadline = self._server.now + self._server.limits.write_seconds

    def resume_writing(self) -> None:
        self.writable = True
        self.deadline = _NEVER if self._answering else self._server.now + self._server.limits.idle_seconds
        if self.on_writable is not None:
            self.on_writable()
        elif not self._answering:
            self._go_on()

    def eof_received(self) -> bool:
        return self._answering  # a half-closed client still gets its answer

    # --- requests -----------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        if self._answering or not self.writable:
            if len(self._buffer) > self._server.limits.pipelined_bytes and self._transport is not None:
                self._paused_reading = True
                self._transport.pause_reading()
            return
        self._parse()

    def _parse(self) -> None:
        """Everything that is whole is handled; answered ones make room for the next."""
        if self._parsing:
            return
        self._parsing = True
        try:
            while self._buffer and not self._answering and not self._closing and self.writable:
                if self._head is None:
                    if not self._take_head():
                        break
                elif not self._take_body(self._head):
                    break
        except MillstreamError as error:
            self._refuse(error)
        finally:
            self._parsing = False

    def _take_head(self) -> bool:
        buffer = self._buffer
        end = buffer.find(b"\r\n\r\n")
        limits = self._server.limits
        if end < 0 or end > limits.head_bytes:
            if buffer.startswith(b"\r\n"):
                self._buffer = buffer[2:]
                return True
            if len(buffer) > limits.head_bytes:
                if b"\r\n" not in buffer[: limits.uri_bytes + 32]:
                    raise Refused(
                        Code.URI_TOO_LONG, f"The request line has more than {limits.uri_bytes} bytes."
                    )
                raise Refused(Code.HEADERS_TOO_LARGE, f"The head has more than {limits.head_bytes} bytes.")
            self.deadline = min(self.deadline, self._server.now + limits.head_seconds)
            return False
        end += 4
        if buffer.startswith(b"\r\n"):
            self._buffer = buffer[2:]
            return True
        head = self._heads.get(buffer[:end])
        block = head.block
        length = block.length
        if not block.chunked and len(buffer) - end >= length and length <= limits.body_bytes:
            body = buffer[end : end + length] if length else b""
            self._buffer = buffer[end + length :]
            self._head = head
            self._dispatch(head, body)
            return True
        self._head = head
        self._buffer = buffer[end:]
        if length > limits.body_bytes:
            raise body_too_large(limits.body_bytes)
        self.deadline = self._server.now + limits.body_seconds
        if block.chunked:
            self._chunks = ChunkedBody(limits.body_bytes)
        else:
            self._missing = length
        if block.expects_continue and not self._buffer:
            self._write(_CONTINUE)
        return True

    def _take_body(self, head: Head) -> bool:
        self.deadline = self._server.now + self._server.limits.body_seconds
        if self._chunks is not None:
            used = self._chunks.feed(self._buffer)
            self._hold(used)
            self._buffer = self._buffer[used:]
            if not self._chunks.done:
                return False
            body = self._chunks.body()
            self._chunks = None
        else:
            piece = self._buffer[: self._missing]
            self._hold(len(piece))
            self._buffer = self._buffer[len(piece) :]
            self._missing -= len(piece)
            self._pieces.append(piece)
            if self._missing:
                return False
            body = b"".join(self._pieces)
            self._pieces = []
        self._dispatch(head, body)
        return True

    def _hold(self, length: int) -> None:
        """Memory for a body that comes in pieces; given back when it has been answered."""
        self._held += length
        self._server.bodies_held += length
        held = self._server.bodies_held
        if held > self._server.limits.bodies_bytes and self._held < held:
            raise MillstreamError(Code.OVERLOADED, BODIES_FULL)

    def _let_go(self) -> None:
        self._server.bodies_held -= self._held
        self._held = 0

    def _dispatch(self, head: Head, body: bytes) -> None:
        self._answering = True
        self.deadline = _NEVER
        self._handle(head, body, self)

    def _refuse(self, error: MillstreamError) -> None:
        """A request that cannot be framed: say why, and hang up, for what follows is not understood."""
        self._answering = True
        self._closing = True
        self._buffer = b""
        send_error(self, error)

    # --- the reply ----------------------------------------------------------------------------

    def send(self, status: int, headers: bytes, body: bytes = b"") -> None:
        if self._transport is None:
            return
        head = self._head
        closing = self._closing or self._draining or head is None or not head.block.keep_alive
        if status in _BODYLESS:
            length = b""
            body = b""
        elif head is not None and head.method == "HEAD":
            length = b"" if not body else b"Content-Length: %d\r\n" % len(body)
            body = b""
        else:
            length = b"Content-Length: %d\r\n" % len(body)
        self._write(
            b"".join(
                (
                    STATUS_LINES[status],
                    self._server.date,
                    headers,
                    _CLOSE if closing else b"",
                    length,
                    b"\r\n",
                    body,
                )
            )
        )
        self._finish(closing)

    def begin(self, status: int, headers: bytes, length: int | None) -> None:
        if self._transport is None:
            return
        assert self._head is not None
        self._left = length
        if length is not None and length > LARGE_ANSWER_BYTES and not self._fitted:
            self._fitted = True
            fit_send_buffer(self._transport.get_extra_info("socket"))
        if length is not None:
            framing = b"Content-Length: %d\r\n" % length
        elif self._head.block.http_10:
            framing = b""
        else:
            framing = _CHUNKED
        if not self._head.block.keep_alive or self._draining or (length is None and self._head.block.http_10):
            framing += _CLOSE
        self._write(b"".join((STATUS_LINES[status], self._server.date, headers, framing, b"\r\n")))

    def write(self, data: bytes) -> None:
        if self._transport is None or not data:
            return
        if self._left is None and self._head is not None and not self._head.block.http_10:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        self._write(data)

    def end(self) -> None:
        if self._transport is None:
            return
        head = self._head
        assert head is not None
        if self._left is None and not head.block.http_10:
            self._write(b"0\r\n\r\n")
        self._finish(
            self._draining or not head.block.keep_alive or (self._left is None and head.block.http_10)
        )

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _finish(self, closing: bool) -> None:
        self.on_close = self.on_writable = None
        self._answering = False
        self._head = None
        if self._held:
            self._let_go()
        if closing:
            self._closing = True
            if self._transport is not None:
                self._transport.close()
            return
        self.deadline = self._server.now + self._server.limits.idle_seconds
        if self.writable and (self._buffer or self._paused_reading):
            self._go_on()

    def _go_on(self) -> None:
        """What waits may be handled; and more may come."""
        if self._paused_reading and self._transport is not None:
            self._paused_reading = False
            self._transport.resume_reading()
        if self._buffer and not self._parsing:
            self._parse()

    # --- time and the end ---------------------------------------------------------------------

    def expire(self) -> None:
        """The deadline has passed: too slow in, too slow out, or nothing to do."""
        if self._transport is None:
            return
        if self._answering:
            self._transport.abort()
        elif self._head is not None or self._buffer:
            self._refuse(MillstreamError(Code.REQUEST_TIMEOUT))
        else:
            self._transport.close()

    def stop(self) -> None:
        """Close as soon as the request that has begun to arrive is answered."""
        self._draining = True
        if not self._answering and self._head is None and not self._buffer and self._transport is not None:
            self._transport.close()
