"""The one set of handlers behind both doors: a head and a body in, a reply out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from millstream.contracts import Clock, Random
from millstream.engine import Engine
from millstream.protocol.errors import Code, Refused

from . import reads, writes
from .failures import FAILURES, send_failure
from .live import Live, LiveLimits
from .reply import NO_STORE, PREFLIGHT, Reply
from .request import Head
from .routes import HEALTH, STREAM_METHODS, stream_key

_TEXT = NO_STORE + b"Content-Type: text/plain; charset=utf-8\r\n"


class App:
    """`handle` never raises what belongs to a contract: it answers it."""

    def __init__(
        self, engine: Engine, clock: Clock, random: Random, limits: LiveLimits, public_url: str | None
    ) -> None:
        self._engine = engine
        self._public_url = public_url.rstrip("/") if public_url else None
        self.live = Live(engine, clock, random, limits)
        self._handlers: dict[str, Callable[[Head, bytes, Reply], None]] = {
            "POST": self._post,
            "GET": self._get,
            "HEAD": self._head,
            "PUT": self._put,
            "DELETE": self._delete,
        }

    def handle(self, head: Head, body: bytes, reply: Reply) -> None:
        try:
            plan = head.plan
            if type(plan) is writes.AppendPlan:
                return writes.append_planned(self._engine, plan, body, reply)
            if type(plan) is reads.ReadPlan:
                return self._read(plan, reply)
            self._route(head, body, reply)
        except FAILURES as failure:
            if head.method in ("GET", "POST"):
                self._touch(head, failure)
            send_failure(reply, failure)

    def _touch(self, head: Head, failure: Exception) -> None:
        """What is wrong in itself restarts the window as well, if there is such a stream (amendments §7)."""
        if isinstance(failure, Refused) and failure.status in (400, 415):
            with suppress(*FAILURES):
                self._engine.look(stream_key(head.path), _nobody, touches=True)

    def _route(self, head: Head, body: bytes, reply: Reply) -> None:
        if head.method == "OPTIONS":
            return reply.send(204, PREFLIGHT)
        if head.path in HEALTH:
            if head.method not in ("GET", "HEAD"):
                raise _not_allowed("GET, HEAD, OPTIONS")
            return reply.send(200, _TEXT, b"ok\n")
        handler = self._handlers.get(head.method)
        if handler is None:
            raise _not_allowed(STREAM_METHODS)
        handler(head, body, reply)

    def _post(self, head: Head, body: bytes, reply: Reply) -> None:
        writes.append(self._engine, head, stream_key(head.path), body, reply)

    def _put(self, head: Head, body: bytes, reply: Reply) -> None:
        writes.create(self._engine, head, stream_key(head.path), body, reply, self._base_url(head))

    def _delete(self, head: Head, body: bytes, reply: Reply) -> None:
        writes.delete(self._engine, stream_key(head.path), reply)

    def _head(self, head: Head, body: bytes, reply: Reply) -> None:
        writes.describe(self._engine, head, stream_key(head.path), reply)

    def _get(self, head: Head, body: bytes, reply: Reply) -> None:
        plan = head.plan = reads.ReadPlan(head, stream_key(head.path))
        self._read(plan, reply)

    def _read(self, plan: reads.ReadPlan, reply: Reply) -> None:
        if plan.live is None:
            reads.read(self._engine, plan, reply)
        else:
            self.live.read(plan, reply)

    def _base_url(self, head: Head) -> str:
        if self._public_url is not None:
            return self._public_url
        return f"{head.scheme}://{head.headers.get('host', 'localhost')}"


def _nobody(found: object) -> None:
    """Nobody waits for this look."""


def _not_allowed(allow: str) -> Refused:
    return Refused(Code.METHOD_NOT_ALLOWED, headers={"Allow": allow})
