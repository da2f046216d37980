"""`millstream check`: exit codes, and one JSON document on stdout with `--output json`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.http.wire import Client
from tests.support.server import Server


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("millstream")
    return subprocess.run(
        [str(program), "check", *arguments], capture_output=True, text=True, timeout=30, check=False
    )


def as_json(data_dir: Path, code: int, *arguments: str) -> dict[str, Any]:
    done = check(str(data_dir), "--output", "json", *arguments)
    assert done.returncode == code, done
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """A data directory with two streams, whose server has stopped."""
    with Server.native(tmp_path) as server:
        client = Client(server)
        client.made("/v1/stream/one", body="hello")
        client.made("/v1/stream/two", "application/json", "[1,2]")
        assert server.terminate() == 0
        return server.data_dir


def test_a_sound_directory_is_0_and_counted(stopped: Path) -> None:
    found = as_json(stopped, 0)
    assert (found["ok"], found["problems"], found["streams"]) == (True, [], 2)
    assert found["data_dir"] == str(stopped)
    assert as_json(stopped, 0, "--deep")["deep"] is True
    plain = check(str(stopped))
    assert (plain.returncode, plain.stderr) == (0, "")
    assert "2 streams" in plain.stdout


def test_a_damaged_directory_is_1_and_says_what(stopped: Path) -> None:
    tables = sorted((stopped / "store").rglob("*.sst"))
    assert tables
    for table in tables:
        table.write_bytes(b"\0" * table.stat().st_size)
    found = as_json(stopped, 1, "--deep")
    assert not found["ok"]
    assert found["problems"]


def test_a_directory_that_a_server_holds_is_1(tmp_path: Path) -> None:
    with Server.native(tmp_path) as server:
        found = as_json(server.data_dir, 1)
    assert "another process" in found["error"]
    assert found["ok"] is False


def test_what_is_no_data_directory_is_1_and_nothing_is_made_there(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        assert "format.json" in as_json(path, 1)["error"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [(), (".", "--output", "xml"), (".", "--shallow")])
def test_a_wrong_call_is_2(arguments: tuple[str, ...]) -> None:
    done = check(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
