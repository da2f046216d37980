"""Server-Sent Events of a stream (base protocol §5.8, amendments §6).

event: data        the bytes: text in lines, JSON as an array, anything else as base64
event: control     where the reader stands; its id is the offset, for a browser's own reconnect
"""

from __future__ import annotations

import re
from base64 import b64encode

_LINE = re.compile(rb"\r\n|\r|\n")
HEARTBEAT = b":\n\n"
SSE_HEADERS = b"Content-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
BASE64_HEADER = b"Stream-SSE-Data-Encoding: base64\r\n"


def data_event(payload: bytes) -> bytes:
    """Text of any kind: CR, LF and CRLF all split lines; one leading space is eaten by parsers."""
    if b"\n" not in payload and b"\r" not in payload:
        if payload.startswith(b" "):
            payload = b" " + payload
        return b"event: data\ndata:" + payload + b"\n\n"
    lines = [b" " + line if line.startswith(b" ") else line for line in _LINE.split(payload)]
    return b"event: data\ndata:" + b"\ndata:".join(lines) + b"\n\n"


def json_event(stored: bytes) -> bytes:
    return data_event(b"[" + stored[:-1] + b"]")


def binary_event(payload: bytes) -> bytes:
    return b"event: data\ndata:" + b64encode(payload) + b"\n\n"


def control_event(offset: str, cursor: int | None, up_to_date: bool, closed: bool) -> bytes:
    fields = [f'"streamNextOffset":"{offset}"']
    if cursor is not None and not closed:
        fields.append(f'"streamCursor":"{cursor}"')
    if up_to_date or closed:
        fields.append('"upToDate":true')
    if closed:
        fields.append('"streamClosed":true')
    return f"event: control\ndata:{{{','.join(fields)}}}\nid: {offset}\n\n".encode()


def whole_characters(text: bytes) -> int:
    """How many leading bytes do not cut a UTF-8 character at the end."""
    length = len(text)
    for back in range(1, min(4, length) + 1):
        byte = text[length - back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return length - back if needed > back and byte < 0xF8 else length
    return length


def as_utf8(text: bytes) -> bytes:
    """What is no UTF-8 becomes U+FFFD: an event stream is UTF-8."""
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return text.decode("utf-8", "replace").encode()
    return text
