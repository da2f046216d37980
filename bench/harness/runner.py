"""Runs scenarios: fresh servers, variants interleaved, rounds collected."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bench.harness.catalogue import CATCHUP
from bench.harness.generator import Answer, Generator
from bench.harness.places import SCRATCH, BenchError
from bench.harness.scenarios import CATCHUP_BYTES, Context, Point, Scenario
from bench.harness.servers import Server, Variant, echo

SETTLE_S = 0.5
CEILING_SECONDS = 2.0

Rounds = dict[str, dict[str, list[Answer]]]


@dataclass(frozen=True)
class Plan:
    generator: Generator
    server_cpu: int
    rounds: int
    seconds: float | None
    min_appends: int


@dataclass
class Outcome:
    """Of one scenario: point -> variant -> one answer per round."""

    scenario: Scenario
    variants: list[str]
    seconds: float
    rounds: Rounds = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    ceiling: dict[str, Answer] = field(default_factory=dict)


def run_scenario(scenario: Scenario, variants: list[Variant], plan: Plan) -> Outcome:
    seconds = plan.seconds if plan.seconds is not None else scenario.default_seconds
    outcome = Outcome(scenario, [variant.name for variant in variants], seconds)
    for point in scenario.points:
        outcome.rounds[point.name] = {variant.name: [] for variant in variants}
    for round_number in range(plan.rounds):
        groups: Iterable[tuple[Point, ...]] = [scenario.points]
        if scenario.server_per_point:
            groups = [(point,) for point in scenario.points]
        for points in groups:
            for variant in variants:
                _run_points(scenario, points, variant, plan, outcome, round_number)
    return outcome


def _run_points(
    scenario: Scenario,
    points: tuple[Point, ...],
    variant: Variant,
    plan: Plan,
    outcome: Outcome,
    round_number: int,
) -> None:
    label = f"{scenario.name} round {round_number + 1}/{plan.rounds} {variant.name}"
    folder = SCRATCH / f"{scenario.name}-{variant.name}-{os.getpid()}"
    server = Server(variant, folder / "data", plan.server_cpu)
    try:
        folder.mkdir(parents=True)
        with server:
            context = Context(server, plan.generator, folder, outcome.seconds, plan.min_appends, round_number)
            if scenario.prepare is not None:
                scenario.prepare(context)
            for point in points:
                answer = point.measure(context)
                outcome.rounds[point.name][variant.name].append(answer)
                _say(f"{label}, {point.name}: {answer[scenario.metric]:,.2f} {scenario.unit}")
    except (BenchError, OSError) as error:
        outcome.failures.append(f"{label}: {error}")
        _say(f"{label}: FAILED: {error}\n{server.log_tail()}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.sync()
        time.sleep(SETTLE_S)


def measure_ceiling(outcome: Outcome, plan: Plan) -> None:
    """The same points against a server that does nothing: what the generator itself can do."""
    if not any(point.on_echo for point in outcome.scenario.points):
        return
    folder = SCRATCH / f"ceiling-{os.getpid()}"
    folder.mkdir(parents=True)
    variant = echo(plan.generator.binary, CATCHUP_BYTES if outcome.scenario is CATCHUP else 2)
    try:
        with Server(variant, folder / "data", plan.server_cpu) as server:
            for point in outcome.scenario.points:
                if point.on_echo is not None:
                    context = Context(server, plan.generator, folder, CEILING_SECONDS, 0, 0)
                    outcome.ceiling[point.name] = point.on_echo(context)
    except BenchError as error:
        outcome.failures.append(f"ceiling of {outcome.scenario.name}: {error}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clean_scratch() -> Path:
    SCRATCH.mkdir(parents=True, exist_ok=True)
    return SCRATCH


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
