"""The README tells the truth: its commands work, and what it and the documentation link to is there."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from millstream.settings import KEYS
from tests.support.server import HOST, Server

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PORT = "4437"
COMMAND_SECONDS_MAX = 20.0
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?)\s*$", re.MULTILINE)


def documents() -> list[Path]:
    files = [README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "bench" / "README.md"]
    return [*files, *sorted((ROOT / "docs").rglob("*.md"))]


def code_block(language: str) -> str:
    blocks = [match[2] for match in _FENCE.finditer(README.read_text()) if match[1] == language]
    assert len(blocks) == 1, f"the README has {len(blocks)} blocks of {language}"
    return blocks[0]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server.native(tmp_path) as running:
        yield running


def run(command: str) -> str:
    done = subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_readmes_curl_commands_do_what_it_says(server: Server) -> None:
    commands = code_block("sh").strip().splitlines()
    assert len(commands) == 5
    assert all(command.startswith("curl ") and f"{HOST}:{PORT}/" in command for command in commands)
    create, append, read, tail, close = (
        command.replace(f"{HOST}:{PORT}", f"{HOST}:{server.port}") for command in commands
    )
    assert status(run(create)) == 201
    assert status(run(append)) == 204
    head, _, body = run(read).partition("\n\n")
    assert status(head) == 200
    assert "stream-next-offset:" in head.lower()
    assert json.loads(body) == [{"n": 1}, {"n": 2}]
    following = subprocess.Popen(["sh", "-c", f"exec {tail}"], stdout=subprocess.PIPE, text=True)
    try:
        assert following.stdout is not None
        events = [following.stdout.readline() for _ in range(5)]  # it shows what is there before the close
        assert events[:2] == ["event: data\n", 'data:[{"n":1},{"n":2}]\n']
        assert status(run(close)) == 204
        rest, _ = following.communicate(timeout=COMMAND_SECONDS_MAX)  # and ends with it
    finally:
        following.kill()
        following.wait()
    assert following.returncode == 0
    assert '"streamClosed":true' in rest


def status(answer: str) -> int:
    return int(answer.split(" ", 2)[1])


def test_the_readmes_python_names_what_exists() -> None:
    tree = ast.parse(code_block("python"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    created = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "create_app"]
    assert len(created) == 1
    for keyword in created[0].keywords:
        assert keyword.arg is not None
        assert keyword.arg.replace("_", ".", 1) in KEYS


def test_the_readmes_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z]+)\b", README.read_text())) <= targets


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    text = _FENCE.sub("", document.read_text())
    broken = []
    for target in _LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (document.parent / path).resolve() if path else document
        if not found.exists() or (anchor and anchor not in anchors(found)):
            broken.append(target)
    assert not broken


def anchors(document: Path) -> set[str]:
    """The anchors that GitHub makes of a document's headings."""
    headings = _HEADING.findall(_FENCE.sub("", document.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
