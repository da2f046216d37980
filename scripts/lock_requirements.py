"""Write the hashed lock files in requirements/ (`make lock`; with UPGRADE=1 the newest versions).

Run it with the oldest Python that is supported: what newer ones need is a part of that.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK_ENVIRONMENT = Path(".tools/lock")
PIP_TOOLS = "pip-tools==7.6.2"
PYTHON_OLDEST = (3, 11)

FLAGS = (
    "--quiet",
    "--generate-hashes",
    "--strip-extras",
    "--allow-unsafe",  # setuptools builds the project itself, so it is pinned as well
    # A lock file holds for every index and machine, so it names none.
    "--no-emit-index-url",
    "--no-emit-trusted-host",
    "--no-emit-find-links",
)
# Lock file -> what it is made from. test.in is constrained by base.txt, so base.txt comes first.
LOCKS = {
    "requirements/base.txt": ("--build-deps-for=editable", "pyproject.toml"),
    "requirements/test.txt": ("requirements/test.in",),
    "requirements/node.txt": ("requirements/node.in",),
}


def main() -> None:
    os.chdir(ROOT)
    if sys.version_info[:2] != PYTHON_OLDEST:
        print("lock: not Python {}.{}: pins may differ from those of the others".format(*PYTHON_OLDEST))
    upgrade = ("--upgrade",) if "--upgrade" in sys.argv[1:] else ()
    python = str(LOCK_ENVIRONMENT / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", str(LOCK_ENVIRONMENT)], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", PIP_TOOLS], check=True)
    environment = os.environ | {"CUSTOM_COMPILE_COMMAND": "make lock"}
    for lock, sources in LOCKS.items():
        started = time.perf_counter()
        command = [python, "-m", "piptools", "compile", *FLAGS, *upgrade, f"--output-file={lock}", *sources]
        subprocess.run(command, check=True, env=environment)
        print(f"lock: {lock:<24} {time.perf_counter() - started:6.1f} s")


if __name__ == "__main__":
    main()
