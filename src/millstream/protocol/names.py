"""Names of streams: how a URL path becomes one, and which names are refused.

Inside the server a stream is named by its *key*: `bucket/stream`. A bucket never contains a
slash, so the first slash divides. The flat surface (`/v1/stream/{path}`) puts paths without a
slash into the bucket `_default`.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from .errors import Code, Refused

DEFAULT_BUCKET = "_default"
FLAT_PATH_BYTES_MAX = 256  # amendments §7: the decoded path
BUCKET_KEY_BYTES_MAX = 122  # extensions §1.1: bucket, slash and stream together

RESERVED_BUCKETS = frozenset({"healthz", "readyz", "metrics", "cluster", "console"})
RESERVED_STREAM = "streams"
SUBSCRIPTIONS = "__ds"

_BUCKET = re.compile(r"[a-z0-9_-]{4,64}")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def decode_path(raw: bytes) -> str:
    """Percent-decode a path once; refuse what could be read in two ways."""
    if b"%" in raw:
        if _BAD_ESCAPE.search(raw):
            raise Refused(Code.INVALID_PATH, "The path has a % that is not followed by two hex digits.")
        raw = unquote_to_bytes(raw)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(Code.INVALID_PATH, "The path is not valid UTF-8.") from None
    if "\0" in text:
        raise Refused(Code.INVALID_PATH, "The path contains a NUL.")
    return text


def _check_segments(path: str) -> None:
    if ".." in path:
        raise Refused(Code.INVALID_PATH, "The path contains '..'.")
    if path.endswith("/"):
        raise Refused(Code.INVALID_PATH, "The path ends with a slash.", hint="Leave the last slash out.")
    if path.startswith("/") or "//" in path:
        raise Refused(Code.INVALID_PATH, "The path has an empty segment.")


def key_of_flat_path(raw: bytes) -> str:
    """The key of `/v1/stream/{raw}`."""
    path = decode_path(raw)
    if not path:
        raise Refused(Code.INVALID_PATH, "The stream has no name.", hint="Use /v1/stream/{name}.")
    _check_segments(path)
    if len(path.encode()) > FLAT_PATH_BYTES_MAX:
        raise Refused(Code.INVALID_PATH, f"The path is longer than {FLAT_PATH_BYTES_MAX} bytes.")
    bucket, slash, stream = path.partition("/")
    if not slash:
        bucket, stream = DEFAULT_BUCKET, path
    if SUBSCRIPTIONS in (bucket, stream) or stream.startswith(SUBSCRIPTIONS + "/"):
        raise Refused(Code.ROUTE_NOT_FOUND, f"'{SUBSCRIPTIONS}' is reserved for subscriptions.")
    _check_stream(stream)
    return f"{bucket}/{stream}"


def check_bucket(bucket: str) -> str:
    if bucket in RESERVED_BUCKETS:
        raise Refused(Code.RESERVED_NAME, f"'{bucket}' is a route of the server, not a bucket.")
    if not _BUCKET.fullmatch(bucket):
        raise Refused(
            Code.INVALID_PATH,
            f"'{bucket[:80]}' is no bucket id.",
            hint="A bucket id has 4 to 64 characters out of a-z, 0-9, '_' and '-'.",
        )
    return bucket


def key_of_bucket_path(raw_bucket: bytes, raw_stream: bytes) -> str:
    """The key of `/{bucket}/{stream}`."""
    bucket, stream = decode_path(raw_bucket), decode_path(raw_stream)
    if SUBSCRIPTIONS in (bucket, stream.partition("/")[0]):
        raise Refused(Code.ROUTE_NOT_FOUND, f"'{SUBSCRIPTIONS}' is reserved for subscriptions.")
    check_bucket(bucket)
    if "/" in stream:
        raise Refused(Code.INVALID_PATH, "A stream id in a bucket contains no '/' (nor %2F).")
    if not stream:
        raise Refused(Code.INVALID_PATH, "The path ends with a slash.", hint="Leave the last slash out.")
    _check_segments(stream)
    _check_stream(stream)
    key = f"{bucket}/{stream}"
    if len(key.encode()) > BUCKET_KEY_BYTES_MAX:
        raise Refused(
            Code.INVALID_PATH, f"Bucket and stream id together are longer than {BUCKET_KEY_BYTES_MAX} bytes."
        )
    return key


def _check_stream(stream: str) -> None:
    if stream == RESERVED_STREAM:
        raise Refused(Code.RESERVED_NAME, "'streams' names a bucket's list; a stream cannot be called so.")
