"""A request's head, parsed once: both doors make it, every handler reads it.

Heads repeat byte for byte on a connection and across connections, so a door may keep them; that is
why a head is never changed, and why a handler leaves what it has worked out in `plan`.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote_to_bytes

from millstream.protocol.appends import AppendRequest
from millstream.protocol.errors import Code, Refused

PARAMETERS = frozenset({"offset", "live", "cursor", "max_bytes"})
# Protocol headers: given twice, nobody can say which one was meant.
_SINGLE = frozenset(
    {
        "content-type",
        "content-length",
        "content-encoding",
        "host",
        "stream-ttl",
        "stream-expires-at",
        "stream-closed",
        "stream-seq",
        "stream-forked-from",
        "stream-fork-offset",
        "stream-fork-sub-offset",
        "producer-id",
        "producer-epoch",
        "producer-seq",
        "last-event-id",
        "if-match",
    }
)


class HeaderBlock:
    """The header lines of a request. They repeat from request to request, whatever the target: a
    door may keep them, and a handler leaves here what it has worked out from them alone."""

    __slots__ = ("append_request", "chunked", "expects_continue", "http_10", "keep_alive", "length", "values")

    def __init__(self, values: dict[str, str]) -> None:
        self.values = values
        self.append_request: AppendRequest | None = None
        self.length = 0
        self.chunked = False
        self.expects_continue = False
        self.http_10 = False
        self.keep_alive = True


class Head:
    __slots__ = ("block", "full_path", "headers", "method", "path", "plan", "query", "raw_query", "scheme")

    def __init__(
        self, method: str, path: bytes, raw_query: bytes, block: HeaderBlock, scheme: str = "http"
    ) -> None:
        self.method = method
        self.path = path
        self.full_path = path  # with what the application is mounted under
        self.raw_query = raw_query
        self.block = block
        self.headers = block.values
        self.scheme = scheme
        self.query: dict[str, str] | None = None
        self.plan: object = None

    def parameters(self) -> dict[str, str]:
        """The known query parameters, decoded. Unknown ones belong to caches and proxies."""
        if self.query is None:
            self.query = parse_query(self.raw_query)
        return self.query


def parse_query(raw: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in raw.split(b"&"):
        name, _, value = pair.partition(b"=")
        key = _text(name)
        if key not in PARAMETERS:
            continue
        if key in found:
            raise Refused(Code.INVALID_PARAMETER, f"The parameter '{key}' is given twice.")
        found[key] = _text(value)
    return found


def _text(raw: bytes) -> str:
    try:
        return unquote_to_bytes(raw.replace(b"+", b" ")).decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(Code.INVALID_PARAMETER, "The query is not UTF-8.") from None


def collect_headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Names in lower case; values of a list header joined; protocol headers at most once."""
    headers: dict[str, str] = {}
    for raw_name, raw_value in pairs:
        name = raw_name.decode("latin-1").lower()
        value = raw_value.decode("latin-1").strip(" \t")
        if name not in headers:
            headers[name] = value
        elif name in _SINGLE:
            raise Refused(Code.INVALID_HEADER, f"The header '{name}' is given twice.")
        else:
            headers[name] = f"{headers[name]}, {value}"
    return headers
