"""The checker of traces can fail: every way of answering before the disk has the bytes is flagged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.trace import Append, Trace, marker, parse

DATA_DIR = Path("/d")
LOG = "7</d/journal/1>"
OTHER = "8</d/journal/2>"
SOCKET = "9<TCP:[127.0.0.1:4437->127.0.0.1:5000]>"
A = marker("a")

RECEIVE = f'10 1.0 read({SOCKET}, "POST /s HTTP/1.1\\r\\n\\r\\n{A}", 65536) = 40'
WRITE = f'11 1.1 pwrite64({LOG}, "\\1\\2{A}\\3", 20, 0) = 20'
WRITE_BEGINS = f'11 1.1 pwrite64({LOG}, "\\1\\2{A}\\3", 20, 0 <unfinished ...>'
WRITE_ENDS = "11 1.2 <... pwrite64 resumed>) = 20"
SYNC = f"11 1.3 fdatasync({LOG}) = 0"
SYNC_BEGINS = f"11 1.3 fdatasync({LOG} <unfinished ...>"
SYNC_ENDS = "11 1.4 <... fdatasync resumed>)    = 0 <0.000100>"
SEND = f'10 1.5 write({SOCKET}, "HTTP/1.1 204 No Content\\r\\n\\r\\n", 30) = 30'


def complaints(*lines: str, appends: tuple[Append, ...] = (Append((A,)),)) -> list[str]:
    return list(Trace(parse(lines), DATA_DIR).check(appends))


@pytest.mark.parametrize(
    "lines",
    [
        [RECEIVE, WRITE, SYNC, SEND],
        [RECEIVE, WRITE_BEGINS, WRITE_ENDS, SYNC_BEGINS, "10 1.3 read(3</x>, ...", SYNC_ENDS, SEND],
        [RECEIVE, WRITE, SYNC_BEGINS, SYNC_ENDS, SYNC_BEGINS, SEND],
        [RECEIVE, WRITE.replace("pwrite64", "writev"), SYNC.replace("fdatasync", "fsync"), SEND],
        [
            RECEIVE,
            f'10 1.1 write({SOCKET}, "HTTP/1.1 100 Continue\\r\\n\\r\\n", 25) = 25',
            WRITE,
            SYNC,
            SEND,
        ],
    ],
)
def test_an_answer_after_the_sync_passes(lines: list[str]) -> None:
    assert complaints(*lines) == []


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([RECEIVE, WRITE, SEND], id="no sync"),
        pytest.param([RECEIVE, WRITE, SEND, SYNC], id="answered before the sync"),
        pytest.param([RECEIVE, WRITE, SYNC_BEGINS, SEND, SYNC_ENDS], id="answered during the sync"),
        pytest.param([RECEIVE, SYNC, WRITE, SEND], id="synced before the write"),
        pytest.param(
            [RECEIVE, WRITE_BEGINS, SYNC.replace("11 ", "12 "), WRITE_ENDS, SEND],
            id="synced during the write",
        ),
        pytest.param(
            [
                RECEIVE,
                WRITE_BEGINS,
                SYNC_BEGINS.replace("11 ", "12 "),
                WRITE_ENDS,
                SYNC_ENDS.replace("11 ", "12 "),
                SEND,
            ],
            id="the sync began before the write had returned",
        ),
        pytest.param([RECEIVE, WRITE, SYNC.replace(LOG, OTHER), SEND], id="another file was synced"),
        pytest.param(
            [RECEIVE, WRITE, SYNC.replace("= 0", "= -1 EIO (Input/output error)"), SEND], id="the sync failed"
        ),
        pytest.param(
            [RECEIVE, WRITE.replace("= 20", "= -1 ENOSPC (No space left on device)"), SYNC, SEND],
            id="the write failed",
        ),
        pytest.param(
            [RECEIVE, WRITE.replace("/d/", "/tmp/"), SYNC.replace("/d/", "/tmp/"), SEND], id="elsewhere"
        ),
        pytest.param([RECEIVE, SYNC, SEND], id="never written"),
        pytest.param([WRITE, SYNC, SEND], id="the request is not in the trace"),
        pytest.param([RECEIVE, WRITE, SYNC], id="the answer is not in the trace"),
        pytest.param([RECEIVE, WRITE, SYNC, SEND.replace("5000", "5001")], id="answered to somebody else"),
    ],
)
def test_an_answer_that_did_not_wait_is_flagged(lines: list[str]) -> None:
    assert len(complaints(*lines)) == 1


def test_every_part_of_a_large_append_must_be_synced() -> None:
    end = marker("a.end")
    second = f'11 1.4 pwrite64({LOG}, "{end}", 20, 20) = 20'
    appends = (Append((A, end)),)
    assert complaints(RECEIVE, WRITE, SYNC, second, SYNC, SEND, appends=appends) == []
    assert complaints(RECEIVE, WRITE, SYNC, second, SEND, appends=appends) != []


def test_a_marker_that_was_received_in_two_pieces_is_found() -> None:
    pieces = [RECEIVE.replace(A, A[:3]), f'10 1.05 read({SOCKET}, "{A[3:]} more", 65536) = 10']
    assert complaints(*pieces, WRITE, SYNC, SEND) == []
    assert complaints(*pieces, WRITE, SEND) != []


def test_each_connection_has_its_own_answers() -> None:
    other = SOCKET.replace("5000", "6000")
    early = SEND.replace(SOCKET, other)
    assert complaints(RECEIVE, WRITE, early, SYNC, SEND) == []
