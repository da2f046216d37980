"""Where things lie, all of it inside the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BENCH = ROOT / "bench"
RESULTS = BENCH / "results"
SCRATCH = RESULTS / "tmp"
PEERS = BENCH / "peers"
LOADGEN_SOURCES = BENCH / "loadgen"
LOADGEN_BUILDS = RESULTS / "build"
RUST_PEER_ROOT = ROOT / ".tools" / "rust-peer"


class BenchError(Exception):
    """Something that makes a measurement impossible or worthless."""
