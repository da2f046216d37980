"""The listening side of the native door: connections, their clock, and a polite end."""

from __future__ import annotations

import asyncio
import ssl
from email.utils import formatdate

from msgspec import Struct

from millstream.http.app import App

from .connection import Connection
from .framing import Heads

TICK_SECONDS = 0.5
BACKLOG = 4096


class ServerLimits(Struct, frozen=True):
    head_bytes: int = 32 << 10
    uri_bytes: int = 8 << 10
    body_bytes: int = 64 << 20
    bodies_bytes: int = 512 << 20
    pipelined_bytes: int = 256 << 10
    write_buffer_bytes: int = 512 << 10
    head_seconds: float = 10.0
    body_seconds: float = 30.0
    write_seconds: float = 60.0
    idle_seconds: float = 120.0
    connections: int = 20_000


class NativeServer:
    def __init__(self, app: App, limits: ServerLimits, tls: ssl.SSLContext | None = None) -> None:
        self.app, self.limits, self._tls = app, limits, tls
        self.heads = Heads("https" if tls else "http", limits.uri_bytes)
        self.connections: set[Connection] = set()
        self.bodies_held = 0  # bytes of bodies that did not come in one piece, until they are answered
        self.now = 0.0
        self.date = b""
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def start(self, host: str, port: int) -> int:
        """Listens; the port that it got."""
        loop = asyncio.get_running_loop()
        self._tick()
        self._server = await loop.create_server(
            self._connection, host, port, backlog=BACKLOG, ssl=self._tls, reuse_address=True
        )
        return int(self._server.sockets[0].getsockname()[1])

    def _connection(self) -> Connection:
        return Connection(self)

    def reload_tls(self, certificate: str, key: str) -> None:
        """For connections to come; the files have been tried before."""
        assert self._tls is not None
        self._tls.load_cert_chain(certificate, key)

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self.now = now = loop.time()
        self.date = f"Date: {formatdate(usegmt=True)}\r\n".encode()
        for connection in [c for c in self.connections if c.deadline < now]:
            connection.expire()
        self._timer = loop.call_later(TICK_SECONDS, self._tick)

    async def stop(self, grace_seconds: float) -> None:
        """No new connections; open answers get their time; then the rest is cut."""
        if self._server is not None:
            self._server.close()
        self.app.live.stop()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_seconds
        for connection in list(self.connections):
            connection.stop()
        while self.connections and loop.time() < deadline:
            await asyncio.sleep(0.02)
        for connection in list(self.connections):
            connection.abort()
        if self._timer is not None:
            self._timer.cancel()
