"""How long a stranger waits: from `make serve` in a fresh clone to the first acknowledged append.

Clones the latest commit into a temporary folder and runs `make serve` with an empty home, once with an empty
package cache (cold) and once, in another fresh clone, with the cache that the first run has filled (warm).
Where packages come from, and over what network, decides most of the cold figure.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
POLL_SECONDS = 0.05
PIP_CACHE = "pip-cache"
STOP_SECONDS_MAX = 15.0
STREAM = "/v1/stream/newcomer"
# What describes this shell and this user, and not the machine and its network. A folder of packages that
# pip is told to look into is a warm cache as well.
PERSONAL = (
    "MAKE",
    "MFLAGS",
    "PYTHON",
    "VIRTUAL_ENV",
    "XDG_",
    "MILLSTREAM_",
    "PIP_CACHE_DIR",
    "PIP_FIND_LINKS",
)


class NeverReady(Exception):
    """The server ended, or no append was acknowledged in time; the message carries what was printed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds-max", type=float, default=900.0, help="give up after this long")
    limit: float = parser.parse_args().seconds_max
    commit = _git("rev-parse", "--short", "HEAD")
    print(f"newcomer: commit {commit}, Python {sys.version.split()[0]}")
    if _git("status", "--porcelain"):
        print("newcomer: changes that are not committed take no part")
    with tempfile.TemporaryDirectory(prefix="newcomer-") as folder:
        for cache in ("cold", "warm"):
            try:
                took = first_append_seconds(Path(folder), cache, limit)
            except NeverReady as error:
                sys.exit(f"newcomer: {cache} package cache: {error}")
            print(f"newcomer: {cache} package cache {took:8.1f} s to the first append", flush=True)
            if not (Path(folder) / PIP_CACHE).exists():
                print("newcomer: pip kept nothing: the package index sends no headers that allow caching")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def first_append_seconds(folder: Path, cache: str, limit: float) -> float:
    """One clone, one `make serve`; the server is stopped before this returns."""
    clone, home = folder / f"clone-{cache}", folder / f"home-{cache}"
    home.mkdir()
    _git("clone", "--quiet", str(ROOT), str(clone))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(PERSONAL)}
    environment |= {"HOME": str(home), "PIP_CACHE_DIR": str(folder / PIP_CACHE)}
    # The interpreter itself, not a shim that looks for its settings in the home.
    python = getattr(sys, "_base_executable", None) or sys.executable
    port = _free_port()
    command = ["make", "serve", f"LISTEN={HOST}:{port}", f"PYTHON={python}"]
    printed = folder / f"{cache}.log"
    began = time.perf_counter()
    with printed.open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=clone,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        while True:
            if _appended(port):
                took = time.perf_counter() - began
                break
            if process.poll() is not None:
                raise NeverReady(f"make ended with {process.returncode}\n{printed.read_text()}")
            if time.perf_counter() - began > limit:
                raise NeverReady(f"nothing after {limit:.0f} s\n{printed.read_text()}")
            time.sleep(POLL_SECONDS)
    finally:
        _stop(process)
    for line in printed.read_text().splitlines():
        if line.startswith("setup:"):
            print(f"    {line}")
    return took


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _appended(port: int) -> bool:
    connection = http.client.HTTPConnection(HOST, port, timeout=5)
    try:
        for method, body in (("PUT", b""), ("POST", b"first")):
            connection.request(method, STREAM, body, {"Content-Type": "text/plain"})
            response = connection.getresponse()
            response.read()
            if response.status not in (200, 201, 204):
                return False
        return True
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _stop(process: subprocess.Popen[bytes]) -> None:
    """The group that `make` leads: make itself and the server."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS_MAX)
            if number is signal.SIGTERM:
                _wait_for_group(process.pid)


def _wait_for_group(group: int) -> None:
    """`make` may end before the server does; the server still writes into the clone."""
    deadline = time.monotonic() + STOP_SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    main()
