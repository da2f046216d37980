"""Measures Millstream against its peers: `python bench/run.py --help`."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import resource
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.harness import generator, machine, peers, servers
from bench.harness.catalogue import STREAM_COUNTS, VARIANTS, scenarios
from bench.harness.places import RESULTS, ROOT, BenchError
from bench.harness.report import as_json, table, verdicts
from bench.harness.runner import Outcome, Plan, clean_scratch, measure_ceiling, run_scenario
from bench.harness.sync_check import count_syncs


def arguments() -> argparse.Namespace:
    names = [scenario.name for scenario in scenarios()]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=names, help="a scenario; may be repeated")
    parser.add_argument("--variants", help=f"comma-separated, of {', '.join(VARIANTS)}")
    parser.add_argument(
        "--rounds", type=int, default=5, help="per scenario and variant (default %(default)s)"
    )
    parser.add_argument("--seconds", type=float, help="measured time per point (default: the scenario's)")
    parser.add_argument("--min-appends", type=int, default=0, help="a point goes on until it has that many")
    parser.add_argument("--stream-counts", default=",".join(map(str, STREAM_COUNTS)), help="of `streams`")
    parser.add_argument("--rust-binary", type=Path, help="use this durable-streams-server")
    parser.add_argument("--server-cpu", type=int, default=0)
    parser.add_argument("--generator-cpu", type=int, default=1)
    parser.add_argument("--no-ceiling", action="store_true", help="do not measure the generator itself")
    parser.add_argument("--verify-sync", action="store_true", help="only count syncs under strace")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    parser.add_argument("--output", type=Path, help="JSON (default: a dated file in bench/results)")
    return parser.parse_args()


def available_variants(wanted: list[str], rust_binary: Path | None) -> dict[str, servers.Variant]:
    found = {}
    for name in wanted:
        try:
            found[name] = _variant(name, rust_binary)
        except peers.PeerMissing as missing:
            print(f"bench: {name} is skipped: {missing}", file=sys.stderr, flush=True)
    return found


def _variant(name: str, rust_binary: Path | None) -> servers.Variant:
    if name == "rust":
        if rust_binary is not None:
            return servers.rust(rust_binary, "a binary given by --rust-binary")
        return servers.rust(peers.rust_binary(), f"{peers.RUST_CRATE} {peers.RUST_VERSION}")
    if name == "node":
        peers.install_node()
        return servers.node(f"{peers.NODE_PACKAGE} {peers.NODE_VERSION}")
    if name != "millstream":
        raise BenchError(f"unknown variant {name}; there are {', '.join(VARIANTS)}")
    if not (ROOT / ".venv" / "bin" / "millstream").exists():
        raise peers.PeerMissing("there is no .venv/bin/millstream; `make setup` makes it")
    return servers.millstream(machine.millstream_version())


def allow_many_files() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def check_cores(server_cpu: int, generator_cpu: int) -> None:
    allowed = os.sched_getaffinity(0)
    if server_cpu == generator_cpu or not {server_cpu, generator_cpu} <= allowed:
        raise BenchError(
            f"needs two different cores of {sorted(allowed)} for the server and the load generator"
        )


def write_json(
    path: Path, facts: dict[str, object], chosen: dict[str, servers.Variant], done: list[Outcome]
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "finished_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": facts,
        "variants": {name: variant.version for name, variant in chosen.items()},
        "scenarios": {outcome.scenario.name: as_json(outcome) for outcome in done},
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def run(options: argparse.Namespace) -> int:
    check_cores(options.server_cpu, options.generator_cpu)
    allow_many_files()
    facts = machine.facts(clean_scratch())
    print("machine: " + ", ".join(f"{name} {value}" for name, value in facts.items()), flush=True)
    loadgen = generator.Generator(generator.build(), options.generator_cpu, options.server_cpu)
    counts = tuple(int(count) for count in options.stream_counts.split(","))
    chosen = [s for s in scenarios(counts) if not options.only or s.name in options.only]
    asked = options.variants.split(",") if options.variants else None
    needed = asked or [name for name in VARIANTS if any(name in scenario.variants for scenario in chosen)]
    variants = available_variants(needed, options.rust_binary)
    if not variants:
        raise BenchError("there is nothing to measure")

    if options.verify_sync:
        found = [count_syncs(variant, loadgen, options.server_cpu) for variant in variants.values()]
        print("\n".join(map(str, found)))
        return 0 if all(count.syncs_before_answers for count in found) else 1

    plan = Plan(loadgen, options.server_cpu, options.rounds, options.seconds, options.min_appends)
    started_at = datetime.datetime.now(datetime.UTC)
    output = options.output or RESULTS / f"{started_at:%Y%m%d-%H%M%S}.json"
    done: list[Outcome] = []
    for scenario in chosen:
        names = asked or scenario.variants
        outcome = run_scenario(scenario, [variants[name] for name in names if name in variants], plan)
        if not options.no_ceiling:
            measure_ceiling(outcome, plan)
        done.append(outcome)
        print(table(outcome), flush=True)
        write_json(output, facts, variants, done)
    print(f"\nwritten: {os.path.relpath(output)}")
    missed = any(not verdict.met for outcome in done for verdict in verdicts(outcome))
    failed = any(outcome.failures for outcome in done)
    return 1 if failed or (missed and options.check) else 0


def main() -> None:
    try:
        sys.exit(run(arguments()))
    except BenchError as error:
        sys.exit(f"bench: {error}")
    except KeyboardInterrupt:
        sys.exit("bench: stopped")


if __name__ == "__main__":
    main()
