"""Builds and runs the load generator (C, one process, one core)."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness.places import LOADGEN_BUILDS, LOADGEN_SOURCES, BenchError

Answer = dict[str, Any]
RUN_LIMIT_S = 900


def build() -> Path:
    sources = sorted(LOADGEN_SOURCES.glob("*.[ch]"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    binary = LOADGEN_BUILDS / f"loadgen-{digest}"
    if binary.is_file():
        return binary
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise BenchError("the load generator is C: a C compiler named cc, gcc or clang is needed")
    shutil.rmtree(LOADGEN_BUILDS, ignore_errors=True)
    LOADGEN_BUILDS.mkdir(parents=True)
    units = [str(source) for source in sources if source.suffix == ".c"]
    command = [compiler, "-O2", "-std=gnu11", "-Wall", "-Wextra", "-o", str(binary), *units]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise BenchError(f"the load generator does not compile:\n{done.stderr}")
    return binary


@dataclass(frozen=True)
class Generator:
    binary: Path
    cpu: int
    server_cpu: int

    def run(self, mode: str, port: int, *, server_pids: tuple[int, ...] = (), **options: object) -> Answer:
        """One mode of the generator; `path_prefix="x"` becomes `--path-prefix x`."""
        command = [str(self.binary), mode, "--port", str(port), "--cpu", str(self.cpu)]
        for name, value in options.items():
            command += [f"--{name.replace('_', '-')}", str(value)]
        if server_pids:
            command += ["--server-cpu", str(self.server_cpu)]
        for pid in server_pids:
            command += ["--server-pid", str(pid)]
        try:
            done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=RUN_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise BenchError(f"loadgen {mode} took longer than {RUN_LIMIT_S} s") from None
        if done.returncode != 0:
            raise BenchError(f"loadgen {mode}: {done.stderr.strip() or f'exit status {done.returncode}'}")
        answer: Answer = json.loads(done.stdout)
        return answer
