"""Installs the peers by package name, once, inside the repository."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench.harness.places import PEERS, ROOT, RUST_PEER_ROOT

RUST_CRATE = "durable-streams"
RUST_VERSION = "0.1.5"
NODE_PACKAGE = "@durable-streams/server"
NODE_VERSION = "0.3.7"


class PeerMissing(Exception):
    """Why a peer cannot be measured on this machine."""


def _install(command: list[str], folder: Path) -> None:
    print(f"bench: installing: {' '.join(command)}", flush=True)
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise PeerMissing(f"`{' '.join(command)}` failed:\n{done.stderr.strip()[-2000:]}")


def rust_binary() -> Path:
    binary = RUST_PEER_ROOT / "bin" / "durable-streams-server"
    if not binary.is_file():
        if shutil.which("cargo") is None:
            raise PeerMissing("cargo is not installed, so the Rust peer cannot be built")
        crate = [RUST_CRATE, "--version", RUST_VERSION, "--locked"]
        _install(["cargo", "install", *crate, "--root", str(RUST_PEER_ROOT.relative_to(ROOT))], ROOT)
    return binary


def install_node() -> None:
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise PeerMissing("node and npm are not installed, so the Node peer cannot be run")
    if not (PEERS / "node_modules" / NODE_PACKAGE / "package.json").is_file():
        _install(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], PEERS)
