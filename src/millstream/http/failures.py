"""The one place where errors become HTTP."""

from __future__ import annotations

import json
import logging

from millstream.contracts import StoreDamaged
from millstream.engine import Vanished
from millstream.protocol.errors import Code, MillstreamError, Refused

from .reply import NO_STORE, Reply

log = logging.getLogger("millstream.http")

BODIES_FULL = "As many large bodies are under way as the server takes."
FAILURES = (MillstreamError, StoreDamaged, Vanished, OSError)


def send_failure(reply: Reply, failure: Exception) -> None:
    """What can go wrong while an answer is looked for."""
    if isinstance(failure, MillstreamError):
        return send_error(reply, failure)
    if isinstance(failure, Vanished):
        return send_error(reply, Refused(Code.STREAM_NOT_FOUND))
    log.error("a request failed: %s", failure)
    damaged = isinstance(failure, StoreDamaged)
    send_error(reply, MillstreamError(Code.STORAGE_DAMAGED if damaged else Code.INTERNAL))


def send_error(reply: Reply, error: MillstreamError) -> None:
    content = {"code": error.code, "message": error.message, **error.details}
    if error.hint:
        content["hint"] = error.hint
    if error.retry_safe or error.maybe_applied:
        content |= {"retry_safe": error.retry_safe, "maybe_applied": error.maybe_applied}
    headers = [NO_STORE, b"Content-Type: application/json\r\n"]
    for name, value in error.headers.items():
        headers.append(f"{name}: {value}\r\n".encode("latin-1", "replace"))
    if error.status == 503 and "Retry-After" not in error.headers:
        headers.append(b"Retry-After: 1\r\n")
    body = json.dumps({"error": content}, ensure_ascii=True).encode()
    reply.send(error.status, b"".join(headers), body)


def body_too_large(bytes_max: int) -> Refused:
    return Refused(
        Code.BODY_TOO_LARGE, f"A body has at most {bytes_max} bytes.", hint="Send it in several appends."
    )


def uri_too_long(bytes_max: int) -> Refused:
    return Refused(Code.URI_TOO_LONG, f"The request target has more than {bytes_max} bytes.")
