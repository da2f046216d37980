"""The servers under test: how each is started, found ready, watched and stopped."""

from __future__ import annotations

import http.client
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from bench.harness.places import PEERS, ROOT, BenchError

START_LIMIT_S = 30.0
STOP_LIMIT_S = 30.0


@dataclass(frozen=True)
class Variant:
    name: str
    version: str
    command: Callable[[int, Path], list[str]]
    ready_path: str
    ready_statuses: tuple[int, ...]


def millstream(version: str) -> Variant:
    binary = ROOT / ".venv" / "bin" / "millstream"
    return Variant(
        "millstream",
        version,
        lambda port, data: [str(binary), "serve", "--listen", f"127.0.0.1:{port}", "--data-dir", str(data)],
        "/healthz",
        (200,),
    )


def rust(binary: Path, version: str) -> Variant:
    return Variant(
        "rust",
        version,
        lambda port, data: [
            *(str(binary), "--host", "127.0.0.1", "--port", str(port)),
            *("--data-dir", str(data), "--durability", "wal"),
        ],
        "/health",
        (200,),
    )


def node(version: str) -> Variant:
    executable = shutil.which("node") or "node"
    return Variant(
        "node",
        version,
        lambda port, data: [executable, str(PEERS / "node_server.mjs"), str(port), str(data)],
        "/v1/stream/is-anybody-there",
        (404,),
    )


def echo(loadgen: Path, bytes_per_read: int) -> Variant:
    """Not a peer: the cheapest possible server, for the ceiling of the generator."""
    return Variant(
        "echo",
        "",
        lambda port, data: [str(loadgen), "echo", "--port", str(port), "--bytes", str(bytes_per_read)],
        "/",
        (200,),
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def process_tree(pid: int) -> tuple[int, ...]:
    found = [pid]
    for known in found:
        for children in Path(f"/proc/{known}/task").glob("*/children"):
            try:
                found += [int(child) for child in children.read_text().split()]
            except OSError:  # the thread has ended meanwhile
                continue
    return tuple(found)


class Server:
    """One running server with a data directory of its own, all its threads on one core."""

    def __init__(self, variant: Variant, data_dir: Path, cpu: int, wrapper: tuple[str, ...] = ()) -> None:
        self.variant = variant
        self.data_dir = data_dir
        self.port = free_port()
        self._cpu = cpu
        self._wrapper = wrapper
        self._log = data_dir.with_name(data_dir.name + ".log")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Server:
        self.data_dir.mkdir(parents=True)
        taskset = shutil.which("taskset")
        if taskset is None:
            raise BenchError("taskset (util-linux) is needed to pin the servers to a core")
        command = [taskset, "--cpu-list", str(self._cpu), *self.variant.command(self.port, self.data_dir)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*self._wrapper, *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT
            )
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    @property
    def pids(self) -> tuple[int, ...]:
        if self._process is None:
            raise BenchError(f"{self.variant.name} is not running")
        return process_tree(self._process.pid)

    def log_tail(self) -> str:
        return self._log.read_text(errors="replace")[-2000:] if self._log.is_file() else ""

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        gives_up_at = time.monotonic() + START_LIMIT_S
        last = "no answer"
        while time.monotonic() < gives_up_at:
            if process.poll() is not None:
                raise BenchError(f"{self.variant.name} ended with {process.returncode}: {self.log_tail()}")
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", self.variant.ready_path)
                status = connection.getresponse().status
                connection.close()
            except OSError:
                time.sleep(0.05)
                continue
            if status in self.variant.ready_statuses:
                return
            last = f"status {status}"
            time.sleep(0.05)
        raise BenchError(f"{self.variant.name} is not ready after {START_LIMIT_S:.0f} s: {last}")

    def _stop(self) -> None:
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            # Under a wrapper it is the server that has to end; the wrapper then ends by itself.
            target = self.pids[1] if self._wrapper and len(self.pids) > 1 else process.pid
            try:
                subprocess.run(["kill", f"-{signal.SIGTERM.value}", str(target)], check=False)
                process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                for pid in reversed(self.pids):
                    subprocess.run(["kill", f"-{signal.SIGKILL.value}", str(pid)], check=False)
                process.wait()
        self._process = None
