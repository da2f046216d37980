"""A real server in a process of its own, on a free port and a data directory that outlives it.

`Server` may be started, killed and started again on the same port and data directory; what the processes
print goes to one log file. Every process leads a process group. A guard in that group ends the group when
the tests end, however they end; as long as the guard is there, the group's number can be nobody else's.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 10.0  # what the server promises
GUARD = ("/bin/sh", "-c", "read -r nothing; kill -9 0")  # its input ends with the tests
PROBE_INTERVAL_SECONDS = 0.005
PROBE_TIMEOUT_SECONDS = 2.0


class ServerFailed(AssertionError):
    """The server ended, or did not become ready; the message carries the end of its log."""


def free_port() -> int:
    """A port below the ephemeral range: who retries an ephemeral port of a dead server can hit itself."""
    for _ in range(1000):
        port = random.SystemRandom().randrange(10_000, 30_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((HOST, port))
                return port
    raise RuntimeError("no free port between 10000 and 30000")


def native_command(port: int, data_dir: Path) -> list[str]:
    program = Path(sys.executable).with_name("millstream")
    return [str(program), "serve", "--listen", f"{HOST}:{port}", "--data-dir", str(data_dir)]


def asgi_command(port: int, data_dir: Path) -> list[str]:
    return [sys.executable, "-m", "uvicorn", "millstream.asgi:app", "--host", HOST, "--port", str(port)]


@dataclass
class Server:
    command: Sequence[str]
    port: int
    data_dir: Path
    log_path: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    ready_path: str = "/healthz"
    process: subprocess.Popen[bytes] | None = None
    guard: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0

    @classmethod
    def native(cls, directory: Path, *, wrapper: Sequence[str] = ()) -> Server:
        """The default door. `wrapper` stands before the command (a tracer)."""
        port, data_dir = free_port(), directory / "data"
        command = [*wrapper, *native_command(port, data_dir)]
        return cls(command, port, data_dir, directory / "server.log")

    @classmethod
    def asgi(cls, directory: Path) -> Server:
        port, data_dir = free_port(), directory / "data"
        environment = {"MILLSTREAM_SERVER_DATA_DIR": str(data_dir)}
        return cls(asgi_command(port, data_dir), port, data_dir, directory / "server.log", environment)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None, "the server has not been started"
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def spawn(self) -> None:
        """Starts the process and does not wait."""
        assert not self.running, "the server is running already"
        self.kill9()
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self.started_at = time.monotonic()
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
                process_group=0,
            )
        self.guard = subprocess.Popen(GUARD, stdin=subprocess.PIPE, process_group=self.process.pid)
        _started.add(self)

    def wait_ready(self, seconds_max: float = READY_SECONDS_MAX) -> float:
        """Seconds from the start of the process until it answered that it is healthy."""
        while True:
            if self.answers_healthy():
                return time.monotonic() - self.started_at
            if not self.running:
                raise ServerFailed(
                    f"the server ended with {self.returncode} before it was ready\n{self.log_end()}"
                )
            if time.monotonic() - self.started_at > seconds_max:
                raise ServerFailed(f"the server was not ready after {seconds_max} s\n{self.log_end()}")
            time.sleep(PROBE_INTERVAL_SECONDS)

    def start(self) -> float:
        self.spawn()
        return self.wait_ready()

    def answers_healthy(self) -> bool:
        request = f"GET {self.ready_path} HTTP/1.1\r\nHost: {HOST}:{self.port}\r\nConnection: close\r\n\r\n"
        try:
            with socket.create_connection((HOST, self.port), timeout=PROBE_TIMEOUT_SECONDS) as connection:
                connection.sendall(request.encode())
                return connection.recv(64).split(b" ", 2)[1:2] == [b"200"]
        except OSError:
            return False

    @property
    def returncode(self) -> int | None:
        return None if self.process is None else self.process.poll()

    def kill9(self) -> None:
        """SIGKILL to the process and whatever it started; returns when it is gone."""
        if self.process is None or self.guard is None:
            return
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=30)
        self.guard.communicate()
        self.guard = None

    def send(self, number: signal.Signals) -> None:
        assert self.running, "the server is not running"
        os.kill(self.pid, number)

    def wait_stopped(self, seconds_max: float = STOP_SECONDS_MAX) -> int:
        assert self.process is not None
        try:
            code = self.process.wait(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise ServerFailed(
                f"the server still ran {seconds_max} s after the signal\n{self.log_end()}"
            ) from None
        self.kill9()  # what it left behind
        return code

    def terminate(self, seconds_max: float = STOP_SECONDS_MAX) -> int:
        """SIGTERM, and the exit code; fails when the server takes longer than it may."""
        self.send(signal.SIGTERM)
        return self.wait_stopped(seconds_max)

    def close(self) -> None:
        self.kill9()
        _started.discard(self)

    def log_text(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def log_end(self, lines: int = 40) -> str:
        return "\n".join(["--- end of the server's log", *self.log_text().splitlines()[-lines:]])

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_started: weakref.WeakSet[Server] = weakref.WeakSet()


@atexit.register
def _kill_what_is_left() -> None:
    for server in list(_started):
        server.close()
