"""Content types: validated once, compared without case and parameters, echoed as they came."""

from __future__ import annotations

import re

from .errors import Code, Refused

DEFAULT_CONTENT_TYPE = "application/octet-stream"
JSON = "application/json"
CONTENT_TYPE_BYTES_MAX = 256

_MEDIA_TYPE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+[ \t]*(;[\t\x20-\x7e]*)?")


def check_content_type(value: str) -> str:
    value = value.strip(" \t")
    if len(value) > CONTENT_TYPE_BYTES_MAX or not _MEDIA_TYPE.fullmatch(value):
        raise Refused(
            Code.INVALID_CONTENT_TYPE, f"'{value[:80]}' is no media type.", hint="For example text/plain."
        )
    return value


def essence(content_type: str) -> str:
    """What two content types are compared by."""
    return content_type.partition(";")[0].strip(" \t").lower()


def is_json(content_type: str) -> bool:
    return essence(content_type) == JSON


def is_text(content_type: str) -> bool:
    """Whether SSE carries the bytes as text (base protocol §5.8)."""
    kind = essence(content_type)
    return kind == JSON or kind.startswith("text/")
