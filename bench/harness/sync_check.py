"""Counts each server's syncs under strace: one append at a time must cost at least one sync each."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass

from bench.harness.generator import Generator
from bench.harness.places import SCRATCH, BenchError
from bench.harness.scenarios import APPEND_BYTES, BINARY, Context, binary_payload
from bench.harness.servers import Server, Variant

SYNC_CALLS = "fdatasync,fsync"
LOAD_SECONDS = 2.0
SYNC_STREAMS = 10  # few: creating streams costs syncs as well


@dataclass(frozen=True)
class SyncCount:
    variant: str
    appends: int
    syncs: dict[str, int]

    @property
    def syncs_before_answers(self) -> bool:
        return sum(self.syncs.values()) >= self.appends

    def __str__(self) -> str:
        calls = ", ".join(f"{name} {count:,}" for name, count in sorted(self.syncs.items())) or "none"
        verdict = "synced before the answer" if self.syncs_before_answers else "NOT synced one by one"
        return f"{self.variant}: {self.appends:,} appends one after another; {calls}: {verdict}"


def count_syncs(variant: Variant, generator: Generator, server_cpu: int) -> SyncCount:
    strace = shutil.which("strace")
    if strace is None:
        raise BenchError("strace is not installed, so syncs cannot be counted")
    folder = SCRATCH / f"sync-{variant.name}-{os.getpid()}"
    folder.mkdir(parents=True)
    summary, prefix = folder / "strace.txt", "/v1/stream/sync-"
    wrapper = (strace, "-f", "-c", "-e", f"trace={SYNC_CALLS}", "-o", str(summary))
    body = binary_payload(APPEND_BYTES)
    try:
        with Server(variant, folder / "data", server_cpu, wrapper) as server:
            context = Context(server, generator, folder, LOAD_SECONDS, 0, 0)
            generator.run(
                "create", server.port, streams=SYNC_STREAMS, path_prefix=prefix, content_type=BINARY
            )
            answer = generator.run(
                "append",
                server.port,
                connections=1,
                streams=SYNC_STREAMS,
                path_prefix=prefix,
                content_type=BINARY,
                body_file=context.body("sync", body),
                seconds=LOAD_SECONDS,
            )
        return SyncCount(variant.name, int(answer["requests"]), _parse(summary.read_text()))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _parse(summary: str) -> dict[str, int]:
    """Rows of `strace -c`: % time, seconds, usecs/call, calls, errors (may be empty), syscall."""
    rows = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", summary, re.MULTILINE)
    return {name: int(calls) for calls, name in rows if name != "total"}
