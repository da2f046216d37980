"""`millstream check`: what a start would say about a data directory, and every byte with `--deep`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from millstream.wiring import Report, StartRefused, examine


def run(data_dir: Path, *, deep: bool, as_json: bool) -> int:
    try:
        report = examine(data_dir, deep=deep)
    except StartRefused as error:
        print(f"millstream: {error}", file=sys.stderr)
        if as_json:
            print(json.dumps({"data_dir": str(data_dir), "ok": False, "error": str(error)}))
        return 1
    if as_json:
        print(_as_json(data_dir, deep, report))
    else:
        _tell(data_dir, deep, report)
    return 1 if report.problems else 0


def _as_json(data_dir: Path, deep: bool, report: Report) -> str:
    return json.dumps(
        {
            "data_dir": str(data_dir),
            "ok": not report.problems,
            "deep": deep,
            "shards": report.shards,
            "streams": report.streams,
            "stored_bytes": report.stored_bytes,
            "records": report.records,
            "blocks": report.blocks,
            "problems": report.problems,
        }
    )


def _tell(data_dir: Path, deep: bool, report: Report) -> None:
    for problem in report.problems:
        print(f"damaged: {problem}")
    print(
        f"{data_dir}: {report.shards} shards, {report.streams} streams, "
        f"{report.stored_bytes} bytes in the store, "
        f"{report.records} records in the journal"
        + (f", {report.blocks} blocks read" if deep else "")
        + (f", {len(report.problems)} problems" if report.problems else ", no problem found")
    )
