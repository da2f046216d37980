"""Everything that can go wrong, as one catalogue.

An error is a code. The code knows its HTTP status, whether the same request may simply be sent
again, and whether the request may have had an effect. Nothing else in the code base decides these
three things: the HTTP room renders what stands here, the client reads it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, NamedTuple


class ErrorSpec(NamedTuple):
    code: str
    status: int
    meaning: str
    retry_safe: bool = False
    maybe_applied: bool = False


class Code(Enum):
    """The catalogue. `docs/errors.md` is checked against it."""

    # 400: the request itself is wrong
    INVALID_REQUEST = ErrorSpec("invalid_request", 400, "The request is malformed.")
    INVALID_PATH = ErrorSpec("invalid_path", 400, "The path is no valid stream name.")
    RESERVED_NAME = ErrorSpec("reserved_name", 400, "The name is needed for a route of the server.")
    INVALID_HEADER = ErrorSpec("invalid_header", 400, "A header has a value that it cannot have.")
    INVALID_PARAMETER = ErrorSpec("invalid_parameter", 400, "A query parameter has no valid value.")
    INVALID_OFFSET = ErrorSpec("invalid_offset", 400, "The offset is malformed.")
    OFFSET_NOT_AT_BOUNDARY = ErrorSpec(
        "offset_not_at_boundary", 400, "The offset lies inside a message of a JSON stream."
    )
    OFFSET_PAST_TAIL = ErrorSpec("offset_past_tail", 400, "The offset lies behind the end of the stream.")
    INVALID_JSON = ErrorSpec("invalid_json", 400, "The body is not valid JSON.")
    EMPTY_BODY = ErrorSpec("empty_body", 400, "An append needs a body.")
    EMPTY_ARRAY = ErrorSpec("empty_array", 400, "An append of an empty JSON array would append nothing.")
    CONTENT_TYPE_REQUIRED = ErrorSpec("content_type_required", 400, "An append needs a Content-Type.")
    INVALID_CONTENT_TYPE = ErrorSpec("invalid_content_type", 400, "The Content-Type is malformed.")
    INVALID_PRODUCER = ErrorSpec(
        "invalid_producer", 400, "The Producer-* headers are incomplete or malformed."
    )
    PRODUCER_EPOCH_START = ErrorSpec(
        "producer_epoch_start", 400, "A new producer epoch must begin with sequence 0."
    )
    INVALID_FORK = ErrorSpec("invalid_fork", 400, "The fork headers do not fit the source stream.")
    # 403
    STALE_EPOCH = ErrorSpec("stale_epoch", 403, "A newer epoch of this producer has been seen.")
    # 404, 405
    ROUTE_NOT_FOUND = ErrorSpec("route_not_found", 404, "There is no such route.")
    STREAM_NOT_FOUND = ErrorSpec("stream_not_found", 404, "There is no such stream.")
    BUCKET_NOT_FOUND = ErrorSpec("bucket_not_found", 404, "There is no such bucket.")
    SOURCE_NOT_FOUND = ErrorSpec("source_not_found", 404, "The stream to fork from does not exist.")
    METHOD_NOT_ALLOWED = ErrorSpec("method_not_allowed", 405, "The route has no such method.")
    # 408: the client was too slow
    REQUEST_TIMEOUT = ErrorSpec(
        "request_timeout", 408, "The request did not arrive in time.", retry_safe=True
    )
    # 409: the stream's state forbids it
    STREAM_EXISTS = ErrorSpec("stream_exists", 409, "The stream exists with another configuration.")
    STREAM_CLOSED = ErrorSpec("stream_closed", 409, "The stream is closed and takes no more data.")
    CONTENT_TYPE_MISMATCH = ErrorSpec(
        "content_type_mismatch", 409, "The Content-Type differs from the stream's."
    )
    STREAM_SEQ_REGRESSION = ErrorSpec(
        "stream_seq_regression", 409, "Stream-Seq must be greater than the last one."
    )
    PRODUCER_GAP = ErrorSpec("producer_gap", 409, "A producer sequence was skipped.")
    SOURCE_DELETED = ErrorSpec("source_deleted", 409, "The stream to fork from has been deleted.")
    STREAM_DELETED_WITH_FORKS = ErrorSpec(
        "stream_deleted_with_forks", 409, "The path was deleted, but forks still refer to it."
    )
    # 410
    STREAM_GONE = ErrorSpec("stream_gone", 410, "The stream was deleted; forks still refer to it.")
    OFFSET_GONE = ErrorSpec("offset_gone", 410, "The offset belongs to data that is no longer there.")
    # 412 .. 431
    PRECONDITION_FAILED = ErrorSpec("precondition_failed", 412, "The stream has changed since that ETag.")
    BODY_TOO_LARGE = ErrorSpec("body_too_large", 413, "The body is larger than the server takes.")
    TOO_MANY_MESSAGES = ErrorSpec("too_many_messages", 413, "One append holds too many messages.")
    URI_TOO_LONG = ErrorSpec("uri_too_long", 414, "The request target is too long.")
    UNSUPPORTED_ENCODING = ErrorSpec("unsupported_encoding", 415, "A request body must not be compressed.")
    EXPECTATION_FAILED = ErrorSpec("expectation_failed", 417, "Only `Expect: 100-continue` is understood.")
    HEADERS_TOO_LARGE = ErrorSpec("headers_too_large", 431, "The request's headers are too large.")
    # 5xx
    INTERNAL = ErrorSpec("internal", 500, "The server failed; its log says why.", maybe_applied=True)
    STORAGE_DAMAGED = ErrorSpec("storage_damaged", 500, "Stored bytes do not match their checksum.")
    HTTP_VERSION = ErrorSpec("http_version", 505, "Only HTTP/1.0 and HTTP/1.1 are spoken here.")
    OVERLOADED = ErrorSpec("overloaded", 503, "The server is at one of its limits.", retry_safe=True)
    DISK_FULL = ErrorSpec("disk_full", 503, "The disk is nearly full; appends are stopped.", retry_safe=True)
    STOPPING = ErrorSpec("stopping", 503, "The server is stopping.", retry_safe=True)
    NOT_APPLIED = ErrorSpec("not_applied", 503, "The write failed and had no effect.", retry_safe=True)
    OUTCOME_UNKNOWN = ErrorSpec(
        "outcome_unknown", 503, "The write may or may not have happened.", maybe_applied=True
    )


class MillstreamError(Exception):
    """Base of all errors that are part of a contract."""

    def __init__(
        self,
        code: Code,
        message: str = "",
        *,
        hint: str = "",
        headers: Mapping[str, str] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message or code.value.meaning)
        self.spec = code.value
        self.code = code.value.code
        self.message = message or code.value.meaning
        self.hint = hint
        self.headers: Mapping[str, str] = headers or {}
        self.details: Mapping[str, Any] = details or {}

    @property
    def status(self) -> int:
        return self.spec.status

    @property
    def retry_safe(self) -> bool:
        return self.spec.retry_safe

    @property
    def maybe_applied(self) -> bool:
        return self.spec.maybe_applied


class Refused(MillstreamError):
    """The request was understood and turned down. Nothing happened."""


class NotApplied(MillstreamError):
    """The request was accepted, then failed, and certainly had no effect."""

    def __init__(self, message: str = "", *, hint: str = "Send it again.") -> None:
        super().__init__(Code.NOT_APPLIED, message, hint=hint)


class OutcomeUnknown(MillstreamError):
    """The request may have been applied: only a reader or an exactly-once producer can tell."""

    def __init__(self, message: str = "") -> None:
        super().__init__(
            Code.OUTCOME_UNKNOWN,
            message,
            hint="Send it again with the same Producer-* headers, or read the stream to find out.",
        )
