"""The one place where errors become HTTP."""

from __future__ import annotations

import json

from millstream.protocol.errors import MillstreamError

from .reply import NO_STORE, Reply


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
