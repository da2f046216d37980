"""Every refusal: the catalogue's status, a body that says why, the headers of a success, and no trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.protocol.errors import Code
from tests.http import fork_refusals, refusals
from tests.http.conftest import start
from tests.http.refusals import Case
from tests.http.wire import Answer, Client

CASES: dict[str, Case] = refusals.CASES | {f"fork_{k}": v for k, v in fork_refusals.CASES.items()}

# Codes that a request alone cannot bring about, or that a test of their own brings about.
ELSEWHERE = {
    Code.INVALID_REQUEST: "test_smuggling.py: what cannot be framed",
    Code.HTTP_VERSION: "test_smuggling.py: an HTTP/2 preface",
    Code.BODY_TOO_LARGE: "test_limits.py: a declared body beyond the limit",
    Code.HEADERS_TOO_LARGE: "test_limits.py: a head beyond its limit",
    Code.REQUEST_TIMEOUT: "test_limits.py: a head or a body that stops",
    Code.EXPECTATION_FAILED: "test_requests.py: another expectation",
    Code.OVERLOADED: "test_limits.py: connections beyond their limit",
    Code.DISK_FULL: "below: a disk without room",
    Code.STOPPING: "needs a request in the moment of a stop: tests/crash",
    Code.NOT_APPLIED: "needs a journal that fails: tests/engine",
    Code.OUTCOME_UNKNOWN: "needs a journal that fails: tests/engine",
    Code.INTERNAL: "would be a bug",
    Code.STORAGE_DAMAGED: "needs damaged files: tests/crash",
}


def check_refusal(answer: Answer, code: Code) -> None:
    spec = code.value
    assert (answer.status, answer.get("Content-Type")) == (spec.status, "application/json"), answer
    error = answer.json["error"]
    assert error["code"] == spec.code, answer
    assert isinstance(error["message"], str) and error["message"]
    assert isinstance(error.get("hint", "-"), str)
    assert answer.get("Cache-Control") == "no-store"
    assert answer.get("X-Content-Type-Options") == "nosniff"
    assert answer.get("Cross-Origin-Resource-Policy") == "cross-origin"
    assert answer.get("Access-Control-Allow-Origin") == "*"
    assert "Stream-Next-Offset" in answer.need("Access-Control-Expose-Headers")
    assert (answer.get("Retry-After") is not None) == (spec.status in (429, 503))
    assert (answer.get("Allow") is not None) == (spec.status == 405)
    if spec.retry_safe or spec.maybe_applied:
        assert (error["retry_safe"], error["maybe_applied"]) == (spec.retry_safe, spec.maybe_applied)


def state(client: Client, target: str) -> tuple[int, str | None, str | None, bytes]:
    head = client.head(target)
    return head.status, head.get("ETag"), head.get("Stream-Closed"), client.get(target).body


@pytest.mark.parametrize("name", CASES)
def test_a_refusal_says_why_and_leaves_nothing_behind(client: Client, stream: str, name: str) -> None:
    case = CASES[name]
    case.given(client, stream)
    fork = f"{stream}-refused"
    before = state(client, stream)
    check_refusal(case.send(client, stream), case.code)
    assert state(client, stream) == before
    assert client.head(fork).status == 404


WITHOUT_A_SOURCE = (Code.SOURCE_NOT_FOUND, Code.SOURCE_DELETED)


@pytest.mark.parametrize(
    "name", [name for name, case in fork_refusals.CASES.items() if case.code not in WITHOUT_A_SOURCE]
)
def test_a_refused_fork_leaves_no_hold_on_its_source(native: Client, stream: str, name: str) -> None:
    case = fork_refusals.CASES[name]
    case.given(native, stream)
    check_refusal(case.send(native, stream), case.code)
    assert native.delete(stream).status == 204
    assert native.head(stream).status == 404, "it went at once: 410 would be a hold"


def test_every_code_is_provoked_or_exempt_for_a_reason() -> None:
    provoked = {case.code for case in CASES.values()}
    assert set(Code) - provoked == set(ELSEWHERE)


HEADERS_ONCE = [
    "Content-Type",
    "Stream-TTL",
    "Stream-Expires-At",
    "Stream-Closed",
    "Stream-Seq",
    "Stream-Forked-From",
    "Stream-Fork-Offset",
    "Stream-Fork-Sub-Offset",
    "Producer-Id",
    "Producer-Epoch",
    "Producer-Seq",
    "If-Match",
    "Last-Event-ID",
]


@pytest.mark.parametrize("name", HEADERS_ONCE)
@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_protocol_header_that_is_given_twice_is_refused(
    client: Client, stream: str, method: str, name: str
) -> None:
    if method == "POST":
        client.made(stream)
    before = state(client, stream)
    lines = f"{name}: 1\r\n{name.lower()}: 1\r\n"
    with client.wire() as wire:
        head = f"{method} {stream} HTTP/1.1\r\nHost: x\r\n{lines}Content-Length: 1\r\n\r\nx"
        wire.send(head.encode())
        check_refusal(wire.answer(), Code.INVALID_HEADER)
    assert state(client, stream) == before


@pytest.mark.parametrize("door", ["native", "asgi"])
def test_a_disk_without_room_stops_appends_and_nothing_else(door: str, tmp_path: Path) -> None:
    settings = {
        "MILLSTREAM_LIMITS_DISK_FREE_MIN": "9000000GiB",
        "MILLSTREAM_LIMITS_ADMISSION_WAIT": "100ms",
    }
    server = start(door, tmp_path, settings)
    try:
        client = Client(server)
        check_refusal(client.put("/v1/stream/a"), Code.DISK_FULL)
        check_refusal(client.post("/v1/stream/a", "x"), Code.DISK_FULL)
        assert client.get("/v1/stream/a").status == 404
        assert client.get("/healthz").status == 200
    finally:
        server.close()


def test_messages_of_refusals_are_ascii_whatever_was_sent(client: Client, stream: str) -> None:
    """A header value comes back escaped, not as a header or a half character."""
    answer = client.put(stream, headers={"Stream-TTL": "\xff\xfe<script>"})
    check_refusal(answer, Code.INVALID_HEADER)
    assert answer.body.isascii()
