"""The protocol's request headers, checked and turned into the structs that decisions take."""

from __future__ import annotations

import re
from typing import Final

from millstream.protocol.appends import AppendRequest
from millstream.protocol.creates import CreateRequest, ForkRequest
from millstream.protocol.errors import Code, Refused
from millstream.protocol.facts import ProducerTuple
from millstream.protocol.media import check_content_type, essence
from millstream.protocol.offsets import parse_offset
from millstream.protocol.times import parse_rfc3339_us

from .request import Head

JS_INTEGER_MAX: Final = 2**53 - 1
PRODUCER_ID_BYTES_MAX: Final = 512  # kept per producer for as long as the stream lives
STREAM_SEQ_BYTES_MAX: Final = 512
TTL_SECONDS_MAX: Final = 10**11  # three thousand years; beyond it microseconds leave 64 bits
MAX_BYTES_DIGITS: Final = 15

_INTEGER = re.compile(r"0|[1-9][0-9]*")


def is_closed(head: Head) -> bool:
    return head.headers.get("stream-closed", "").lower() == "true"


def refuse_encoding(head: Head) -> None:
    encoding = head.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", ""):
        raise Refused(
            Code.UNSUPPORTED_ENCODING, f"The body is sent as '{encoding[:40]}'.", hint="Send it plain."
        )


def append_request(head: Head) -> AppendRequest:
    headers = head.headers
    refuse_encoding(head)
    raw_type = headers.get("content-type")
    stream_seq = headers.get("stream-seq")
    if stream_seq is not None:
        if not stream_seq:
            raise Refused(Code.INVALID_HEADER, "Stream-Seq is empty.")
        if len(stream_seq) > STREAM_SEQ_BYTES_MAX:
            raise Refused(Code.INVALID_HEADER, f"Stream-Seq has more than {STREAM_SEQ_BYTES_MAX} bytes.")
    return AppendRequest(
        content_type=_essence_or_empty(raw_type),
        producer=_producer(headers),
        stream_seq=stream_seq,
        closes=is_closed(head),
        if_match=headers.get("if-match"),
    )


def _essence_or_empty(raw: str | None) -> str:
    return essence(raw) if raw else ""


def _producer(headers: dict[str, str]) -> ProducerTuple | None:
    identity, epoch, seq = (headers.get(f"producer-{name}") for name in ("id", "epoch", "seq"))
    if identity is None and epoch is None and seq is None:
        return None
    if identity is None or epoch is None or seq is None:
        missing = [
            name
            for name, value in (("Producer-Id", identity), ("Producer-Epoch", epoch), ("Producer-Seq", seq))
            if value is None
        ]
        raise Refused(
            Code.INVALID_PRODUCER, f"{' and '.join(missing)} missing.", hint="Send all three or none."
        )
    if not identity or len(identity) > PRODUCER_ID_BYTES_MAX:
        raise Refused(Code.INVALID_PRODUCER, f"Producer-Id has 1 to {PRODUCER_ID_BYTES_MAX} bytes.")
    return ProducerTuple(identity, _js_integer("Producer-Epoch", epoch), _js_integer("Producer-Seq", seq))


def _js_integer(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 16 or int(text) > JS_INTEGER_MAX:
        raise Refused(Code.INVALID_PRODUCER, f"{name} is an integer from 0 to 2^53-1, not '{text[:40]}'.")
    return int(text)


def create_request(head: Head, fork_key: str | None) -> CreateRequest:
    headers = head.headers
    refuse_encoding(head)
    raw_type = headers.get("content-type")
    ttl, expires_at = headers.get("stream-ttl"), headers.get("stream-expires-at")
    if ttl is not None and expires_at is not None:
        raise Refused(Code.INVALID_HEADER, "Stream-TTL and Stream-Expires-At exclude each other.")
    ttl_seconds = expires_at_us = None
    if ttl is not None:
        if not (ttl.isascii() and _INTEGER.fullmatch(ttl)) or len(ttl) > 12 or int(ttl) > TTL_SECONDS_MAX:
            raise Refused(
                Code.INVALID_HEADER,
                f"Stream-TTL is a whole number of seconds up to {TTL_SECONDS_MAX}, not '{ttl[:40]}'.",
                hint="For example 3600: no sign, no leading zero, no fraction.",
            )
        ttl_seconds = int(ttl)
    if expires_at is not None:
        expires_at_us = parse_rfc3339_us(expires_at)
        if expires_at_us is None:
            raise Refused(
                Code.INVALID_HEADER,
                f"Stream-Expires-At is no RFC 3339 time: '{expires_at[:40]}'.",
                hint="For example 2030-01-31T12:00:00Z.",
            )
    return CreateRequest(
        content_type=check_content_type(raw_type) if raw_type else None,
        ttl_seconds=ttl_seconds,
        expires_at=expires_at,
        expires_at_us=expires_at_us,
        closed=is_closed(head),
        fork=_fork(headers, fork_key),
        if_match=headers.get("if-match"),
    )


def _fork(headers: dict[str, str], source: str | None) -> ForkRequest | None:
    offset, sub = headers.get("stream-fork-offset"), headers.get("stream-fork-sub-offset")
    if sub is not None and not (sub.isascii() and _INTEGER.fullmatch(sub) and len(sub) <= 16):
        raise Refused(Code.INVALID_FORK, f"Stream-Fork-Sub-Offset is a whole number, not '{sub[:40]}'.")
    if source is None:
        if offset is not None or sub is not None:
            raise Refused(Code.INVALID_FORK, "A fork needs Stream-Forked-From.")
        return None
    token = None if offset is None else parse_offset(offset)
    return ForkRequest(source, token, offset, int(sub or 0))
