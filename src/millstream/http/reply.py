"""How a handler answers, whatever the door; and the headers that every answer carries.

A block of headers is bytes, each line with its CRLF: the native door sends it as it stands.
`send` answers at once. `begin`, `write` and `end` answer in pieces: a handler writes while
`writable` is true and goes on when `on_writable` is called; a client that goes away is told by
`on_close`. `abort` is for answers that cannot be finished: the connection is cut, never ended
cleanly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Reply(Protocol):
    on_writable: Callable[[], None] | None
    on_close: Callable[[], None] | None

    @property
    def writable(self) -> bool: ...

    def send(self, status: int, headers: bytes, body: bytes = b"") -> None: ...

    def begin(self, status: int, headers: bytes, length: int | None) -> None: ...

    def write(self, data: bytes) -> None: ...

    def end(self) -> None: ...

    def abort(self) -> None: ...


REQUEST_HEADERS = (
    "Authorization, Content-Type, If-Match, If-None-Match, Last-Event-ID, "
    "Stream-Seq, Stream-TTL, Stream-Expires-At, Stream-Closed, "
    "Stream-Forked-From, Stream-Fork-Offset, Stream-Fork-Sub-Offset, "
    "Producer-Id, Producer-Epoch, Producer-Seq"
)
RESPONSE_HEADERS = (
    "Stream-Next-Offset, Stream-Cursor, Stream-Up-To-Date, Stream-Closed, Stream-TTL, "
    "Stream-Expires-At, Stream-SSE-Data-Encoding, Stream-Earliest-Offset, Stream-Snapshot-Offset, "
    "Producer-Epoch, Producer-Seq, Producer-Expected-Seq, Producer-Received-Seq, "
    "Feed-Next-Sequence, Feed-Up-To-Date, ETag, Location, Retry-After, WWW-Authenticate"
)
COMMON = (
    "X-Content-Type-Options: nosniff\r\n"
    "Cross-Origin-Resource-Policy: cross-origin\r\n"
    "Access-Control-Allow-Origin: *\r\n"
    f"Access-Control-Expose-Headers: {RESPONSE_HEADERS}\r\n"
).encode()
NO_STORE = COMMON + b"Cache-Control: no-store\r\n"
PREFLIGHT = (
    NO_STORE
    + (
        "Access-Control-Allow-Methods: GET, HEAD, PUT, POST, DELETE, OPTIONS\r\n"
        f"Access-Control-Allow-Headers: {REQUEST_HEADERS}\r\n"
        "Access-Control-Max-Age: 86400\r\n"
    ).encode()
)


def lines(**headers: str) -> bytes:
    """Header lines by name: `stream_next_offset="…"` becomes `Stream-Next-Offset: …`."""
    return b"".join(
        f"{name.replace('_', '-')}: {value}\r\n".encode("latin-1") for name, value in headers.items()
    )
