"""Medians, spreads and ratios as a table and as JSON."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from bench.harness.generator import Answer
from bench.harness.runner import Outcome

GENERATOR_BUSY = 0.9
OTHERS_BUSY = 0.25


@dataclass(frozen=True)
class Verdict:
    text: str
    met: bool


def _values(rounds: list[Answer], key: str) -> list[float]:
    return [float(answer[key]) for answer in rounds]


def _median(rounds: list[Answer], key: str) -> float:
    return statistics.median(_values(rounds, key))


def _disturbed(rounds: list[Answer]) -> int:
    return sum(answer["others_cpu"] > OTHERS_BUSY for answer in rounds)


def _mostly_disturbed(rounds: list[Answer]) -> bool:
    return 2 * _disturbed(rounds) >= len(rounds)


def _outcome(met: bool, undisturbed: bool) -> str:
    if not undisturbed:
        return "UNDECIDED, the machine was not quiet"
    return "met" if met else "MISSED"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def table(outcome: Outcome) -> str:
    scenario = outcome.scenario
    head = (
        f"{'point':<19}{'variant':<12}{scenario.unit:>14}{'min .. max':>25}"
        f"{'p50 ms':>9}{'p99 ms':>9}{'server':>8}{'loadgen':>9}{'others':>8}"
    )
    lines = [f"\n{scenario.name}: {scenario.title}", head, "-" * len(head)]
    for point, by_variant in outcome.rounds.items():
        for variant, rounds in by_variant.items():
            if rounds:
                lines.append(_row(point, variant, rounds, scenario.metric))
        if point in outcome.ceiling:
            lines.append(_row(point, "(echo)", [outcome.ceiling[point]], scenario.metric))
    lines += [f"  {verdict.text}" for verdict in verdicts(outcome)]
    lines += [f"  note: {note}" for note in _notes(outcome)]
    lines += [f"  FAILED: {failure}" for failure in outcome.failures]
    return "\n".join(lines)


def _row(point: str, variant: str, rounds: list[Answer], metric: str) -> str:
    values = _values(rounds, metric)
    spread = f"{_number(min(values))} .. {_number(max(values))}"
    return (
        f"{point:<19}{variant:<12}{_number(statistics.median(values)):>14}{spread:>25}"
        f"{_median(rounds, 'p50_us') / 1000:>9.2f}{_median(rounds, 'p99_us') / 1000:>9.2f}"
        f"{_median(rounds, 'server_cpu'):>8.2f}{_median(rounds, 'generator_cpu'):>9.2f}"
        f"{_median(rounds, 'others_cpu'):>8.2f}"
    )


def verdicts(outcome: Outcome) -> list[Verdict]:
    scenario, found = outcome.scenario, []
    for point, by_variant in outcome.rounds.items():
        for peer, bound in scenario.targets.items():
            ours, theirs = by_variant.get("millstream", []), by_variant.get(peer, [])
            if ours and theirs:
                found.append(
                    _compare(point, peer, bound, ours, theirs, scenario.metric, scenario.higher_is_better)
                )
    if scenario.flatness_target is not None:
        found += [_flatness(outcome, variant, scenario.flatness_target) for variant in outcome.variants]
    return found


def _compare(
    point: str, peer: str, bound: float, ours: list[Answer], theirs: list[Answer], metric: str, higher: bool
) -> Verdict:
    ratio = _median(ours, metric) / _median(theirs, metric)
    by_round = [a / b for a, b in zip(_values(ours, metric), _values(theirs, metric), strict=False)]
    met = ratio >= bound if higher else ratio <= bound
    undisturbed = not (_mostly_disturbed(ours) or _mostly_disturbed(theirs))
    return Verdict(
        f"{point}: millstream / {peer} = {ratio:.2f} (by round {min(by_round):.2f} .. {max(by_round):.2f}), "
        f"target {'>=' if higher else '<='} {bound:g}: {_outcome(met, undisturbed)}",
        met and undisturbed,
    )


def _flatness(outcome: Outcome, variant: str, bound: float) -> Verdict:
    metric = outcome.scenario.metric
    medians = {
        point: _median(by_variant[variant], metric)
        for point, by_variant in outcome.rounds.items()
        if by_variant[variant]
    }
    if len(medians) < 2:
        return Verdict(f"{variant}: too few points for a ratio of the worst to the best", False)
    worst, best = min(medians, key=medians.__getitem__), max(medians, key=medians.__getitem__)
    ratio = medians[worst] / medians[best]
    undisturbed = not any(_mostly_disturbed(outcome.rounds[point][variant]) for point in medians)
    return Verdict(
        f"{variant}: worst ({worst}) / best ({best}) = {ratio:.2f}, target >= {bound:g}: "
        f"{_outcome(ratio >= bound, undisturbed)}",
        ratio >= bound and undisturbed,
    )


def _notes(outcome: Outcome) -> list[str]:
    notes = []
    for point, by_variant in outcome.rounds.items():
        for variant, rounds in by_variant.items():
            if rounds and _median(rounds, "generator_cpu") > GENERATOR_BUSY:
                notes.append(f"{point}, {variant}: the load generator is busy; the figure is its limit")
            disturbed = _disturbed(rounds)
            if disturbed:
                notes.append(
                    f"{point}, {variant}: DISTURBED in {disturbed} of {len(rounds)} rounds: "
                    f"others used more than {OTHERS_BUSY:g} of the two cores"
                )
    return notes


def as_json(outcome: Outcome) -> dict[str, object]:
    scenario = outcome.scenario
    return {
        "title": scenario.title,
        "metric": scenario.metric,
        "unit": scenario.unit,
        "seconds": outcome.seconds,
        "medians": {
            point: {name: _median(rounds, scenario.metric) for name, rounds in by_variant.items() if rounds}
            for point, by_variant in outcome.rounds.items()
        },
        "verdicts": [{"text": verdict.text, "met": verdict.met} for verdict in verdicts(outcome)],
        "failures": outcome.failures,
        "ceiling": outcome.ceiling,
        "rounds": outcome.rounds,
    }
