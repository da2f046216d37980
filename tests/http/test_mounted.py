"""Millstream inside another application: paths as the client knows them."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator

import pytest

from tests.http.wire import Client
from tests.support.server import HOST, Server

HOST_APPLICATION = """
from millstream.asgi import create_app

inner = create_app()


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return await inner(scope, receive, send)
    assert scope["path"].startswith("/streams/"), scope["path"]
    await inner({**scope, "root_path": "/streams"}, receive, send)
"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    directory = tmp_path_factory.mktemp("mounted")
    (directory / "house.py").write_text(HOST_APPLICATION)
    server = Server.asgi(directory)
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(directory), "house:app"]
    command += ["--host", HOST, "--port", str(server.port)]
    server = dataclasses.replace(server, command=command, ready_path="/streams/healthz")
    with server:
        yield Client(server)


def test_location_is_the_path_that_was_asked(client: Client, stream: str) -> None:
    made = client.made(f"/streams{stream}", body="hello")
    assert made.need("Location").endswith(f"/streams{stream}")
    assert client.get(f"/streams{stream}").body == b"hello"


def test_a_fork_may_name_its_source_as_the_client_knows_it(client: Client, stream: str) -> None:
    location = client.made(f"/streams{stream}", body="past").need("Location")
    for number, source in enumerate((f"/streams{stream}", stream, location)):
        target = f"/streams{stream}-{number}"
        assert client("PUT", target, {"Stream-Forked-From": source}).status == 201, source
        assert client.get(target).body == b"past"
