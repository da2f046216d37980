"""One server per door for all tests of a worker; every test has streams of its own."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.http.wire import Client
from tests.support.server import Server

# Waits short enough for a test, long enough for a busy machine.
QUICK = {
    "MILLSTREAM_LIMITS_LONG_POLL": "1500ms",
    "MILLSTREAM_LIMITS_SSE": "4s",
    "MILLSTREAM_LIMITS_SSE_HEARTBEAT": "1s",
}
DOORS = {"native": Server.native, "asgi": Server.asgi}


def start(door: str, directory: Path, settings: dict[str, str]) -> Server:
    directory.mkdir(parents=True, exist_ok=True)
    server = DOORS[door](directory)
    server = dataclasses.replace(server, environment={**server.environment, **settings})
    server.start()
    return server


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Server]]:
    started: dict[str, Server] = {}

    def get(door: str) -> Server:
        if door not in started:
            started[door] = start(door, tmp_path_factory.mktemp(door), QUICK)
        assert started[door].running, started[door].log_end()
        return started[door]

    yield get
    for server in started.values():
        try:
            assert server.running, server.log_end()
            assert "Traceback" not in server.log_text(), server.log_end()
        finally:
            server.close()


@pytest.fixture(scope="session", params=["native", "asgi"])
def client(request: pytest.FixtureRequest, servers: Callable[[str], Server]) -> Client:
    """The same requests through either door."""
    return Client(servers(request.param))


@pytest.fixture(scope="session")
def native(servers: Callable[[str], Server]) -> Client:
    """The native door alone: for what it alone decides."""
    return Client(servers("native"))


@pytest.fixture
def stream() -> str:
    """The path of a stream that nobody has made."""
    return f"/v1/stream/{uuid.uuid4().hex}"
