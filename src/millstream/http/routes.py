"""Which URL means what. A path is looked at once and as raw bytes: names are decoded in one place."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from millstream.protocol.errors import Code, Refused
from millstream.protocol.names import (
    DEFAULT_BUCKET,
    check_bucket,
    decode_path,
    key_of_bucket_path,
    key_of_flat_path,
)

FLAT_ROOT: Final = b"/v1/stream/"
HEALTH: Final = frozenset({b"/healthz", b"/readyz/local"})
STREAM_METHODS: Final = "GET, HEAD, PUT, POST, DELETE, OPTIONS"


def stream_key(path: bytes) -> str:
    """The key of the stream that a path names; refused where it names none."""
    if path.startswith(FLAT_ROOT):
        return key_of_flat_path(path[len(FLAT_ROOT) :])
    first, slash, rest = path[1:].partition(b"/")
    if path in (b"/v1/stream", b"/v1", b"/v1/"):
        raise Refused(Code.ROUTE_NOT_FOUND, hint="Streams are at /v1/stream/{name}.")
    bucket = decode_path(first)
    if not path.startswith(b"/") or not slash:
        if not first or not path.startswith(b"/"):
            raise Refused(Code.ROUTE_NOT_FOUND, hint="Streams are at /v1/stream/{name}.")
        check_bucket(bucket)
        raise Refused(Code.BUCKET_NOT_FOUND, f"There is no bucket '{bucket}'.")
    key = key_of_bucket_path(first, rest)
    if bucket != DEFAULT_BUCKET:
        raise Refused(
            Code.BUCKET_NOT_FOUND,
            f"There is no bucket '{bucket}'.",
            hint="Streams that need no bucket are at /v1/stream/{name}.",
        )
    return key


def fork_source(header: str, mount: bytes = b"") -> str:
    """`Stream-Forked-From`: a URL path of either surface, or a whole URL, whose path then counts. A
    client knows a mounted server's paths with what they are mounted under."""
    raw = header.encode("latin-1")
    if b"://" in raw[:10]:
        try:
            raw = urlsplit(raw).path
        except ValueError as error:
            raise Refused(Code.INVALID_PATH, f"Stream-Forked-From is no URL: {error}.") from None
    if mount and raw.startswith(mount + b"/"):
        raw = raw[len(mount) :]
    if not raw.startswith(b"/"):
        raw = FLAT_ROOT + raw
    return stream_key(raw)
