"""What a start says about its configuration: 2 and the key's name, or a warning."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.http.wire import Client
from tests.support.server import Server, native_command

START_SECONDS_MAX = 20


def refused(directory: Path, *arguments: str, config: str = "", **environment: str) -> str:
    """What the server said when it did not start, and why that was the caller's fault."""
    command = [*native_command(0, directory / "data"), *arguments]
    if config:
        (directory / "millstream.toml").write_text(config)
        command += ["--config", str(directory / "millstream.toml")]
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=START_SECONDS_MAX,
        check=False,
    )
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 2, f"{done.returncode}: {said}"
    assert "Traceback" not in said
    return said


def test_an_unknown_key_in_the_file_is_refused_by_name(tmp_path: Path) -> None:
    said = refused(tmp_path, config='[limits]\nboddy = "1MiB"\n')
    assert "limits.boddy" in said
    assert "limits.body" in said, "the refusal lists what there is"


def test_an_unknown_table_in_the_file_is_refused_by_name(tmp_path: Path) -> None:
    assert "limit.body" in refused(tmp_path, config='[limit]\nbody = "1MiB"\n')


def test_an_unknown_variable_is_refused_by_name(tmp_path: Path) -> None:
    said = refused(tmp_path, MILLSTREAM_LIMITS_BODDY="1MiB")
    assert "MILLSTREAM_LIMITS_BODDY" in said
    assert "limits.body" in said


def test_an_unknown_key_of_set_is_refused_by_name(tmp_path: Path) -> None:
    assert "limits.boddy" in refused(tmp_path, "--set", "limits.boddy=1MiB")
    assert "limits.body" in refused(tmp_path, "--set", "limits.body")


BAD_VALUES = {
    "limits.body": ("plenty", "64KiB"),
    "limits.head": ("-1", "64KiB"),
    "limits.uri": ("1.5MiB", "64KiB"),
    "limits.long_poll": ("25", "unit"),
    "limits.sse_heartbeat": ("0s", "above zero"),
    "limits.messages": ("0", "whole number"),
    "server.listen": ("127.0.0.1", "HOST:PORT"),
    "server.shards": ("many", "whole number"),
    "server.log_format": ("xml", "json"),
    "server.public_url": ("streams.example.com", "https://"),
}


@pytest.mark.parametrize("key", BAD_VALUES)
def test_a_bad_value_is_refused_with_its_key_and_what_would_be_right(tmp_path: Path, key: str) -> None:
    value, wanted = BAD_VALUES[key]
    said = refused(tmp_path, "--set", f"{key}={value}")
    assert key in said
    assert repr(value) in said
    assert wanted in said


def test_a_public_url_that_fits_into_no_header_is_refused(tmp_path: Path) -> None:
    for value in ("https://例え.jp", "https://a\x7fb", "https://ü.example"):
        assert "server.public_url" in refused(tmp_path, "--public-url", value)


def test_a_bad_listen_flag_and_a_bad_port_are_refused(tmp_path: Path) -> None:
    assert "server.listen" in refused(tmp_path, "--listen", "nonsense")
    assert "server.listen" in refused(tmp_path, "--listen", "127.0.0.1:99999")


def test_a_number_where_a_duration_belongs_is_refused(tmp_path: Path) -> None:
    assert "limits.long_poll" in refused(tmp_path, config="[limits]\nlong_poll = 25\n")


def test_limits_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    assert "limits.uri" in refused(tmp_path, "--set", "limits.uri=1MiB")


def test_a_reference_to_a_missing_variable_is_refused(tmp_path: Path) -> None:
    said = refused(tmp_path, config='[server]\nnode_id = "$NOT_SET_ANYWHERE"\n')
    assert "server.node_id" in said
    assert "NOT_SET_ANYWHERE" in said


def test_a_file_that_is_missing_or_no_toml_is_refused(tmp_path: Path) -> None:
    assert "nowhere.toml" in refused(tmp_path, "--config", str(tmp_path / "nowhere.toml"))
    assert "millstream.toml" in refused(tmp_path, config="[server\n")


def test_an_unknown_flag_is_refused(tmp_path: Path) -> None:
    assert "--verbosity" in refused(tmp_path, "--verbosity", "9")


def test_a_cluster_configuration_is_refused_with_the_reason(tmp_path: Path) -> None:
    said = refused(tmp_path, config='[cluster]\nname = "prod"\nbootstrap_node_id = 1\n')
    assert "[cluster]" in said
    assert "single node" in said


def test_authentication_that_would_not_be_enforced_is_refused(tmp_path: Path) -> None:
    """A key without effect gets a warning; this one would leave the doors open."""
    assert "auth.tokens" in refused(tmp_path, config='[auth]\ntokens = "tokens.toml"\n')


def test_variables_of_a_feature_that_is_not_there_are_refused_where_ignoring_them_would_be_unsafe(
    tmp_path: Path,
) -> None:
    assert "MILLSTREAM_AUTH_TOKENS" in refused(tmp_path, MILLSTREAM_AUTH_TOKENS="tokens.toml")
    assert "MILLSTREAM_CLUSTER_NAME" in refused(tmp_path, MILLSTREAM_CLUSTER_NAME="prod")


def test_ursulas_sample_for_one_node_starts_with_warnings(tmp_path: Path) -> None:
    config = tmp_path / "ursula.toml"
    server = Server.native(tmp_path)
    config.write_text(
        f"""version = 1

[server]
node_id = 1
listen = "127.0.0.1:{server.port}"
advertise = "127.0.0.1:{server.port}"
data_dir = "{server.data_dir}"
hot_payload_backend = "rocksdb"
write_only_leader = false

[cold]
backend = "fs"
"""
    )
    server.command = [server.command[0], "serve", "--config", str(config)]
    server.environment = {"MILLSTREAM_HISTORY_FLUSH_INTERVAL": "5s"}
    with server:
        assert Client(server).put("/v1/stream/demo").status == 201
        said = server.log_text()
    for key in ("version", "server.advertise", "server.hot_payload_backend", "server.write_only_leader"):
        assert f"{key} has no effect" in said
    for key in ("cold.backend", "history.flush_interval"):
        assert f"{key} has no effect yet: history is not part of this version" in said


def test_flags_win_over_variables_and_variables_over_the_file(tmp_path: Path) -> None:
    config = tmp_path / "millstream.toml"
    config.write_text(
        '[server]\npublic_url = "https://file"\n[limits]\nmessages = 1\nhead = "2KiB"\nuri = "1KiB"'
    )
    server = Server.native(tmp_path)
    server.command = [*server.command, "--config", str(config), "--public-url", "https://flag/base/"]
    server.command += ["--set", "limits.messages=3", "--advertise", "127.0.0.1:1"]
    server.environment = {"MILLSTREAM_SERVER_PUBLIC_URL": "https://variable", "MILLSTREAM_LIMITS_URI": "512"}
    # What Kubernetes adds, and what belongs to somebody else, is no reason not to start.
    server.environment |= {"MILLSTREAM_SERVER_PORT_4437_TCP_ADDR": "10.0.0.1", "MILLSTREAM_COLOR": "red"}
    with server:
        client = Client(server)
        made = client.put("/v1/stream/a%2Fb", "application/json")
        assert made.get("Location") == "https://flag/base/v1/stream/a%2Fb"
        assert client.post("/v1/stream/a/b", "[1,2,3]", "application/json").status == 204
        assert client.post("/v1/stream/a/b", "[1,2,3,4]", "application/json").status == 413
        assert client.get(f"/healthz?{'x' * 600}").status == 414
        assert client.get("/healthz", {"X-A": "x" * 3000}).status == 431
        said = server.log_text()
    assert "MILLSTREAM_COLOR" in said
    assert "TCP_ADDR" not in said


def test_a_port_that_is_taken_stops_the_start_with_1_and_the_address(native: Client, tmp_path: Path) -> None:
    port = native.server.port
    intruder = Server(native_command(port, tmp_path / "data"), port, tmp_path / "data", tmp_path / "log")
    try:
        intruder.spawn()
        assert intruder.wait_stopped(START_SECONDS_MAX) == 1
    finally:
        intruder.close()
    assert f"127.0.0.1:{port}" in intruder.log_text()
    assert "Traceback" not in intruder.log_text()
