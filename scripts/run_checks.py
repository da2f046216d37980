"""Run the linters side by side and print how long each took; what a failed one said comes after that."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent

CHECKS = (
    ("mypy",),
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("lint-imports",),
)


class Outcome(NamedTuple):
    command: str
    passed: bool
    output: str
    took_s: float


def check(command: tuple[str, ...]) -> Outcome:
    started = time.perf_counter()
    program, *arguments = command
    done = subprocess.run(
        [str(BIN / program), *arguments],
        cwd=ROOT,
        check=False,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return Outcome(" ".join(command), done.returncode == 0, done.stdout, time.perf_counter() - started)


def main() -> None:
    failed = []
    with ThreadPoolExecutor(len(CHECKS)) as pool:
        for future in as_completed([pool.submit(check, command) for command in CHECKS]):
            outcome = future.result()
            verdict = "ok" if outcome.passed else "FAILED"
            print(f"check: {outcome.command:<28} {outcome.took_s:6.1f} s  {verdict}", flush=True)
            if not outcome.passed:
                failed.append(outcome)
    for outcome in failed:
        print(f"\n--- {outcome.command}\n{outcome.output.strip()}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
