"""The data directory: who holds it, what wrote it, and how many shards it has."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from pathlib import Path

from millstream.protocol.placement import HASH_NAME

FORMAT = 1
_FILE = "format.json"


class DirectoryRefused(Exception):
    """The directory cannot be used; the message says why and what helps."""


class DataDirectory:
    """Held from construction to `release`: nobody else can open it meanwhile."""

    def __init__(self, path: Path, shards_if_new: int, *, create: bool = True) -> None:
        self.path = path
        if not create and not (path / _FILE).exists():
            raise DirectoryRefused(f"{path} is no data directory: it has no {_FILE}.")
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise DirectoryRefused(f"{path}: {error.strerror}.") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise DirectoryRefused(f"{path} is held by another process; stop that one first.") from None
        try:
            self.id, self.shards = self._read() if (path / _FILE).exists() else self._write(shards_if_new)
        except DirectoryRefused:
            self.release()
            raise

    def _read(self) -> tuple[str, int]:
        try:
            content = json.loads((self.path / _FILE).read_text())
            version, identity = content["format"], content["id"]
            shards, name = content["shards"], content["hash"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DirectoryRefused(f"{self.path / _FILE} is damaged: {error!r}.") from None
        if version > FORMAT:
            raise DirectoryRefused(
                f"{self.path} was written by a newer version: format {version}, this one reads {FORMAT}."
            )
        if name != HASH_NAME:
            raise DirectoryRefused(
                f"{self.path} places streams by '{name}', which this version does not know."
            )
        return identity, shards

    def _write(self, shards: int) -> tuple[str, int]:
        ours = ("lock", f"{_FILE}.new")  # a first start may have been cut short
        others = [entry.name for entry in self.path.iterdir() if entry.name not in ours]
        if others:
            raise DirectoryRefused(
                f"{self.path} has no {_FILE} but other content ({others[0]}): choose an empty directory."
            )
        identity = secrets.token_hex(8)
        content = {"format": FORMAT, "id": identity, "shards": shards, "hash": HASH_NAME}
        making = self.path / f"{_FILE}.new"
        with making.open("w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        making.rename(self.path / _FILE)
        for directory in (self.path, self.path.absolute().parent):
            descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        return identity, shards

    def release(self) -> None:
        os.close(self._lock)
