"""Where node is: the one that the project's setup put below .tools/, otherwise the one on PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
NODE_VERSION_MIN = (20, 19)  # vite, which vitest stands on, asks for it


class NodeMissing(RuntimeError):
    """No node of a version that the conformance suite runs on."""


def find_node() -> Path:
    rejected: list[str] = []
    for candidate in _candidates():
        version = _version(candidate)
        if version >= NODE_VERSION_MIN:
            return candidate
        rejected.append(f"{candidate} is {'.'.join(map(str, version)) or 'broken'}")
    found = "; ".join(rejected) or "none found"
    wanted = ".".join(map(str, NODE_VERSION_MIN))
    raise NodeMissing(f"node {wanted} or newer is needed below {REPOSITORY / '.tools'} or on PATH ({found})")


def environment(node: Path) -> dict[str, str]:
    """The environment for node and what it starts: its own folder comes first on PATH."""
    path = os.environ.get("PATH", "")
    return {**os.environ, "PATH": f"{node.parent}{os.pathsep}{path}"}


def _candidates() -> Iterator[Path]:
    tools = REPOSITORY / ".tools"
    for pattern in ("bin/node", "*/bin/node", "*/*/bin/node"):
        yield from sorted(tools.glob(pattern))
    on_path = shutil.which("node")
    if on_path is not None:
        yield Path(on_path)


def _version(node: Path) -> tuple[int, ...]:
    try:
        done = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=True)
        return tuple(int(part) for part in done.stdout.strip().removeprefix("v").split("."))
    except (OSError, subprocess.SubprocessError, ValueError):
        return ()
