"""TLS at the native door: serve it, change the certificate without a restart, refuse what does not load."""

from __future__ import annotations

import hashlib
import shutil
import signal
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http.test_start import refused
from tests.http.wire import Wire
from tests.support.server import Server

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="no openssl to make certificates with"
)


def certificate(directory: Path, name: str) -> tuple[Path, Path]:
    """A self-signed certificate and its key."""
    cert, key = directory / f"{name}.pem", directory / f"{name}.key"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj"
    subprocess.run(
        [*command.split(), f"/CN={name}", "-keyout", key, "-out", cert], check=True, capture_output=True
    )
    return cert, key


def fingerprint(cert: Path) -> str:
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(cert.read_text())).hexdigest()


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    directory = tmp_path_factory.mktemp("certificates")
    return {name: certificate(directory, name) for name in ("first", "second")}


@pytest.fixture
def server(tmp_path: Path, pairs: dict[str, tuple[Path, Path]]) -> Iterator[Server]:
    made = Server.native(tmp_path)
    cert, key = tmp_path / "live.pem", tmp_path / "live.key"
    install(pairs["first"], tmp_path)
    made.command = [*made.command, "--tls-cert", str(cert), "--tls-key", str(key)]
    try:
        made.spawn()
        wait_for(made, "ready on https://")
        yield made
    finally:
        made.close()


def install(pair: tuple[Path, Path], directory: Path) -> None:
    shutil.copy(pair[0], directory / "live.pem")
    shutil.copy(pair[1], directory / "live.key")


def wait_for(server: Server, line: str) -> None:
    deadline = time.monotonic() + 20
    while line not in server.log_text():
        assert server.running and time.monotonic() < deadline, server.log_end()
        time.sleep(0.02)


def connect(server: Server) -> Wire:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return Wire(server.port, context)


def shown(wire: Wire) -> str:
    assert isinstance(wire.plain, ssl.SSLSocket)
    return hashlib.sha256(wire.plain.getpeercert(binary_form=True) or b"").hexdigest()


def test_streams_are_served_over_tls_and_location_says_https(server: Server) -> None:
    body = bytes(range(256)) * 4096
    with connect(server) as wire:
        made = wire.request("PUT", "/v1/stream/a", {"Content-Type": "application/octet-stream"}, body)
        assert made.status == 201
        assert made.get("Location") == f"https://127.0.0.1:{server.port}/v1/stream/a"
        assert wire.request("GET", "/v1/stream/a").body == body


def test_plain_http_at_a_tls_door_gets_no_answer_and_does_no_harm(server: Server) -> None:
    with Wire(server.port) as wire:
        wire.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        wire.ended()
        assert b"HTTP/1.1 200" not in wire.buffer
    with connect(server) as wire:
        assert wire.request("GET", "/healthz").status == 200


def test_a_hang_up_signal_brings_the_new_certificate_and_keeps_connections(
    server: Server, tmp_path: Path, pairs: dict[str, tuple[Path, Path]]
) -> None:
    with connect(server) as old:
        assert shown(old) == fingerprint(pairs["first"][0])
        install(pairs["second"], tmp_path)
        server.send(signal.SIGHUP)
        wait_for(server, "the certificate has been reloaded")
        with connect(server) as new:
            assert shown(new) == fingerprint(pairs["second"][0])
            assert new.request("GET", "/healthz").status == 200
        assert old.request("GET", "/healthz").status == 200


def test_a_reload_of_files_that_do_not_fit_keeps_the_old_certificate(
    server: Server, tmp_path: Path, pairs: dict[str, tuple[Path, Path]]
) -> None:
    shutil.copy(pairs["second"][0], tmp_path / "live.pem")  # the key is still the first's
    server.send(signal.SIGHUP)
    wait_for(server, "the certificate was not reloaded")
    with connect(server) as wire:
        assert shown(wire) == fingerprint(pairs["first"][0])
        assert wire.request("GET", "/healthz").status == 200
    (tmp_path / "live.pem").unlink()
    server.send(signal.SIGHUP)
    time.sleep(0.2)
    with connect(server) as wire:
        assert wire.request("GET", "/healthz").status == 200


def test_files_that_do_not_load_refuse_the_start(tmp_path: Path, pairs: dict[str, tuple[Path, Path]]) -> None:
    cert, key = map(str, pairs["first"])
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("no certificate\n")
    wrong = {
        "missing": (str(tmp_path / "nowhere.pem"), key),
        "garbage": (str(garbage), key),
        "another's key": (cert, str(pairs["second"][1])),
    }
    for name, (one, other) in wrong.items():
        said = refused(tmp_path, "--tls-cert", one, "--tls-key", other)
        assert "server.tls_cert" in said, name


def test_a_certificate_without_its_key_refuses_the_start(
    tmp_path: Path, pairs: dict[str, tuple[Path, Path]]
) -> None:
    assert "server.tls_key" in refused(tmp_path, "--tls-cert", str(pairs["first"][0]))
    assert "server.tls_cert" in refused(tmp_path, "--tls-key", str(pairs["first"][1]))


def test_without_tls_a_hang_up_signal_changes_nothing(tmp_path: Path) -> None:
    with Server.native(tmp_path) as server:
        server.send(signal.SIGHUP)
        time.sleep(0.1)
        assert server.answers_healthy()
