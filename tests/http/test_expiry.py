"""Expiry that nobody asks for: the sweep ends a stream once, and the server goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.conftest import start
from tests.http.wire import Client

WINDOW = {"Stream-TTL": "1"}
SWEPT_SECONDS = 2.6  # a window, and a sweep that comes once a second
NAMES = 64  # enough to meet every shard


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Client]:
    """A server of its own: a shard that stops would stop the streams of other tests."""
    server = start("native", tmp_path, {})
    yield Client(server)
    server.close()


def check_every_shard_answers(client: Client, round_: int) -> None:
    with client.wire() as wire:
        wire.plain.settimeout(3)
        for number in range(NAMES):
            target = f"/v1/stream/after-{round_}/{number}"
            assert wire.request("PUT", target, {"Content-Type": "text/plain"}).status == 201
    assert "Traceback" not in client.server.log_text(), client.server.log_end()


def test_a_stream_that_was_made_twice_is_swept_once(alone: Client) -> None:
    target = "/v1/stream/twice"
    alone.made(target, headers=WINDOW)
    assert alone.delete(target).status == 204
    alone.made(target, headers=WINDOW)
    time.sleep(SWEPT_SECONDS)
    check_every_shard_answers(alone, 1)
    assert alone.head(target).status == 404
    alone.server.kill9()
    alone.server.start()
    check_every_shard_answers(alone, 2)
    assert alone.head(target).status == 404
    alone.made(target)


def test_a_stream_that_expired_and_was_made_again_is_swept_once(alone: Client) -> None:
    """The PUT finds it expired before the sweep does."""
    target = "/v1/stream/again"
    for _ in range(3):
        alone.made(target, headers=WINDOW)
        time.sleep(1.02)
    time.sleep(SWEPT_SECONDS - 1)
    check_every_shard_answers(alone, 1)
    alone.made(target)


def test_many_streams_expire_together(alone: Client) -> None:
    with alone.wire() as wire:
        for number in range(300):
            headers = {"Content-Type": "text/plain", **WINDOW}
            assert wire.request("PUT", f"/v1/stream/many/{number}", headers).status == 201
        time.sleep(SWEPT_SECONDS)
        check_every_shard_answers(alone, 1)
        statuses = {wire.request("HEAD", f"/v1/stream/many/{number}").status for number in range(300)}
    assert statuses == {404}
