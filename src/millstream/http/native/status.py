"""Status lines, ready made."""

from __future__ import annotations

from http import HTTPStatus

STATUS_LINES = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
