"""The public suite against the durable server: all but the subscription tests, on both doors.

`npm ci` in this folder (`make test` does that) installs the suite and vitest, pinned in package-lock.json.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.node import environment, find_node
from tests.support.server import Server

HERE = Path(__file__).resolve().parent
SUITE_SECONDS_MAX = 240

TESTS_IN_THE_SUITE = 338  # of version 0.3.6
SUBSCRIPTION_TESTS = 6  # its `describe.runIf(options.subscriptions)`: reported as skipped without that option
EXPECTED_PASSED = TESTS_IN_THE_SUITE - SUBSCRIPTION_TESTS
SUBSCRIPTION_SUITE = "Reserved subscription APIs"
WAITING = "offset=now with long-poll (mode .waits|on empty)|on 204 timeout"  # for the end of a long-poll


@dataclass(frozen=True)
class Result:
    name: str
    status: str
    failure: str


@pytest.mark.timeout(SUITE_SECONDS_MAX + 90)
@pytest.mark.parametrize("door", [Server.native, Server.asgi], ids=["native", "asgi"])
def test_the_public_suite_passes(
    door: Callable[[Path], Server], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with door(tmp_path) as server:
        results = _run_suite(server, tmp_path)
        assert server.running, server.log_end()
    failed = [result for result in results if result.status not in ("passed", "skipped")]
    skipped = {result.name for result in results if result.status == "skipped"}
    counts = Counter(result.status for result in results)
    print(f"public suite, {request.node.callspec.id} door: {counts['passed']} of {EXPECTED_PASSED} passed")
    assert not failed, _describe(failed, server)
    assert all(name.startswith(SUBSCRIPTION_SUITE) for name in skipped), skipped
    assert len(skipped) == SUBSCRIPTION_TESTS
    assert counts["passed"] == EXPECTED_PASSED


def _run_suite(server: Server, directory: Path) -> list[Result]:
    """The tests that wait for a long-poll to end, overlapping, beside all others, one after another."""
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(_run_vitest, server, directory / "waiting.json", WAITING, overlap=True)
        others = pool.submit(_run_vitest, server, directory / "others.json", f"^(?!.*({WAITING}))")
    merged = []
    for one, other in zip(waiting.result(), others.result(), strict=True):
        assert one.name == other.name
        assert "skipped" in (one.status, other.status), f"{one.name} ran twice"
        merged.append(other if one.status == "skipped" else one)
    return merged


def _run_vitest(server: Server, report: Path, name_pattern: str, *, overlap: bool = False) -> list[Result]:
    vitest = HERE / "node_modules" / "vitest" / "vitest.mjs"
    assert vitest.exists(), f"{vitest} is missing: run `npm ci` in {HERE} (`make test` does)"
    node = find_node()
    command = [str(node), str(vitest), "run", "--reporter=json", f"--outputFile={report}", "-t", name_pattern]
    settings = {"CONFORMANCE_TEST_URL": server.url, "CONFORMANCE_OVERLAP": str(int(overlap)), "CI": "1"}
    done = subprocess.run(
        command,
        cwd=HERE,
        env={**environment(node), **settings},
        capture_output=True,
        text=True,
        timeout=SUITE_SECONDS_MAX,
        check=False,
    )
    assert report.exists(), f"vitest ended with {done.returncode} and no report\n{done.stdout}\n{done.stderr}"
    suites: list[dict[str, Any]] = json.loads(report.read_text())["testResults"]
    for suite in suites:
        assert suite["assertionResults"], f"the suite could not be loaded: {suite.get('message')}"
    return [
        Result(test["fullName"], test["status"], "\n".join(test["failureMessages"] or []))
        for suite in suites
        for test in suite["assertionResults"]
    ]


def _describe(failed: list[Result], server: Server) -> str:
    parts = [f"{len(failed)} tests of the public suite failed"]
    for result in failed:
        first_lines = os.linesep.join(result.failure.splitlines()[:6])
        parts.append(f"--- {result.name}: {result.status}\n{first_lines}")
    return "\n".join([*parts, server.log_end()])
