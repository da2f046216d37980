"""Facts about the machine that a reader needs to judge the figures."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import subprocess
import time
from pathlib import Path

from bench.harness.places import ROOT

SYNC_PROBES = 300
SYNC_PROBE_BYTES = 4096


def _first_line(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return "not installed"
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0] if lines else ""


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return "unknown"


def _filesystem(folder: Path) -> str:
    """Type of the file system; the mount point is left out, paths are nobody's business."""
    best_mount, best_type = "", "unknown"
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split()
        inside = folder.is_relative_to(mount)
        if inside and len(mount) >= len(best_mount):
            best_mount, best_type = mount, kind
    return best_type


def _sync_probe_us(folder: Path) -> float:
    """Median of a 4 KiB overwrite with fdatasync, what one group commit costs at least."""
    path = folder / "sync-probe"
    took_us = []
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.pwrite(handle, bytes(SYNC_PROBES * SYNC_PROBE_BYTES), 0)
        os.fsync(handle)
        for probe in range(SYNC_PROBES):
            begun_ns = time.perf_counter_ns()
            os.pwrite(handle, b"x" * SYNC_PROBE_BYTES, probe * SYNC_PROBE_BYTES)
            os.fdatasync(handle)
            took_us.append((time.perf_counter_ns() - begun_ns) / 1e3)
    finally:
        os.close(handle)
        path.unlink()
    return round(statistics.median(took_us), 1)


def millstream_version() -> str:
    commit = _first_line("git", "rev-parse", "--short", "HEAD")
    dirty = _first_line("git", "status", "--porcelain", "--untracked-files=no")
    return f"commit {commit}{' with changes' if dirty else ''}"


def facts(data_parent: Path) -> dict[str, object]:
    return {
        "cpu": _field("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "filesystem": _filesystem(data_parent),
        "fdatasync_4k_median_us": _sync_probe_us(data_parent),
        "load_average": list(os.getloadavg()),
        "python": platform.python_version(),
        "node": _first_line("node", "--version"),
        "rustc": _first_line("rustc", "--version"),
        "cc": _first_line("cc", "--version"),
    }
