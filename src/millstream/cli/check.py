"""`millstream check`: what a start would say about a data directory, and every byte with `--deep`."""

from __future__ import annotations

import sys
from pathlib import Path

from millstream.wiring import StartRefused, examine


def run(data_dir: Path, *, deep: bool) -> int:
    try:
        report = examine(data_dir, deep=deep)
    except StartRefused as error:
        print(f"millstream: {error}", file=sys.stderr)
        return 1
    for problem in report.problems:
        print(f"damaged: {problem}")
    print(
        f"{data_dir}: {report.shards} shards, {report.streams} streams, "
        f"{report.stored_bytes} bytes in the store, "
        f"{report.records} records in the journal"
        + (f", {report.blocks} blocks read" if deep else "")
        + (f", {len(report.problems)} problems" if report.problems else ", no problem found")
    )
    return 1 if report.problems else 0
