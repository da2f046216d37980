"""Profiles Millstream under append load: py-spy (a flame graph) when installed, else cProfile (a table)."""

from __future__ import annotations

import argparse
import dataclasses
import pstats
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.harness import generator, machine, servers
from bench.harness.places import RESULTS, ROOT, SCRATCH
from bench.harness.scenarios import WARMUP_S, Context, appends, json_appends

FUNCTIONS_SHOWN = 40
PROFILE = RESULTS / "append.pstats"
FLAME_GRAPH = RESULTS / "append.svg"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--json", action="store_true", help="arrays of JSON messages instead of 256 bytes")
    parser.add_argument("--sort", default="tottime", help="of the cProfile table (default %(default)s)")
    parser.add_argument("--no-profiler", action="store_true", help="load only, to attach something else")
    return parser.parse_args()


def profiled_by_python(variant: servers.Variant) -> servers.Variant:
    python = [str(ROOT / ".venv" / "bin" / "python"), "-m", "cProfile", "-o", str(PROFILE)]
    return dataclasses.replace(variant, command=lambda port, data: [*python, *variant.command(port, data)])


def record(py_spy: str, pid: int, seconds: float) -> subprocess.Popen[bytes]:
    length = ["--duration", str(int(seconds)), "--rate", "500", "--threads"]
    return subprocess.Popen([py_spy, "record", "--pid", str(pid), *length, "--output", str(FLAME_GRAPH)])


def main() -> None:
    options = arguments()
    py_spy = shutil.which("py-spy", path=f"{ROOT / '.venv' / 'bin'}:{sys.exec_prefix}/bin") or shutil.which(
        "py-spy"
    )
    variant = servers.millstream(machine.millstream_version())
    by_python = py_spy is None and not options.no_profiler
    folder = SCRATCH / "profile"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    load = (json_appends if options.json else appends)(options.connections, options.streams)
    try:
        with servers.Server(
            profiled_by_python(variant) if by_python else variant, folder / "data", 0
        ) as server:
            print(f"server process {server.pids[0]}, port {server.port}", flush=True)
            loadgen = generator.Generator(generator.build(), cpu=1, server_cpu=0)
            recorder = None
            if py_spy is not None and not options.no_profiler:
                recorder = record(py_spy, server.pids[0], options.seconds + WARMUP_S)
            answer = load(Context(server, loadgen, folder, options.seconds, 0, 0))
            if recorder is not None:
                recorder.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{answer['rate']:,.0f} per second while profiled; server CPU {answer['server_cpu']:.2f}")
    if by_python:
        pstats.Stats(str(PROFILE)).sort_stats(options.sort).print_stats(FUNCTIONS_SHOWN)
    elif not options.no_profiler:
        print(f"flame graph: {FLAME_GRAPH.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
