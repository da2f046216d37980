"""Configuration: every key, its default, its reason; read from file, environment and flags.

`millstream.toml` < `MILLSTREAM_<TABLE>_<KEY>` < flags. Durations are strings with a unit
("250ms"), sizes integers of bytes or strings ("64KiB"); "$NAME" reads the environment. An unknown
key or an impossible value stops the start and names the key. `docs/limits.md` lists what stands
here, and a test compares the two.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple


class SettingsError(Exception):
    """The configuration is wrong; the message names the key and what would be right."""


_SIZE = re.compile(r"([0-9]+)\s*(B|KiB|MiB|GiB|KB|MB|GB)?")
_SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d)")
_DURATIONS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_URL = re.compile(r"https?://[^\s/?#]+(?:/[^\s?#]*)?", re.ASCII)
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^:\s]+):([0-9]{1,5})")


def size(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError('a size such as 65536, "64KiB" or "1GiB"')
    return int(match[1]) * _SIZES[match[2] or "B"]


def duration(value: object) -> float:
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise ValueError('a duration above zero with its unit, such as "250ms", "10s" or "1h"')
    return float(match[1]) * _DURATIONS[match[2]]


def count(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("a whole number from 1")
    return value


def text(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise ValueError("a string")
    return value


def address(value: object) -> str:
    match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    if match is None or int(match[2]) > 65535:
        raise ValueError('HOST:PORT, such as "127.0.0.1:4437"')
    return match[0]


def url(value: object) -> str:
    if not isinstance(value, str) or (value and not (_URL.fullmatch(value) and _is_plain(value))):
        raise ValueError('a URL without a query, such as "https://streams.example.com"')
    return value


def _is_plain(value: str) -> bool:
    """It becomes part of a header."""
    return value.isascii() and value.isprintable()


def log_format(value: object) -> str:
    if value not in ("human", "json"):
        raise ValueError('"human" or "json"')
    return str(value)


class Key(NamedTuple):
    default: Any
    parse: Callable[[object], Any]
    reason: str


KEYS: dict[str, Key] = {
    "server.listen": Key("127.0.0.1:4437", address, "Where to listen; only this machine by default."),
    "server.data_dir": Key("data", text, "Where everything is kept."),
    "server.public_url": Key("", url, "What Location begins with; empty: the request's scheme and Host."),
    "server.node_id": Key("1", text, "The node's name in log lines."),
    "server.tls_cert": Key("", text, "PEM file with the certificate chain; read again on SIGHUP."),
    "server.tls_key": Key("", text, "PEM file with the private key; read again on SIGHUP."),
    "server.log_format": Key("human", log_format, "Log lines for people, or JSON for machines."),
    "server.shards": Key(
        16, count, "Shards of a new data directory; it keeps the number that it was made with."
    ),
    "limits.head": Key("32KiB", size, "A request's head; far above what clients and proxies send (431)."),
    "limits.uri": Key("8KiB", size, "A request target: a name of 256 bytes, escaped, and its query (414)."),
    "limits.body": Key("64MiB", size, "A body is held in memory; clients coalesce 20 MB and more (413)."),
    "limits.pipelined": Key("256KiB", size, "What a connection may send ahead while it waits for an answer."),
    "limits.write_buffer": Key(
        "512KiB", size, "What waits for a slow client before nothing more is written to it."
    ),
    "limits.connections": Key(
        20000, count, "Open connections; each costs file descriptors and a few KiB (503)."
    ),
    "limits.messages": Key(
        250000, count, "Messages in one JSON append; each one costs an index entry (413)."
    ),
    "limits.bodies": Key("512MiB", size, "Large bodies under way, all connections together (503)."),
    "limits.fork_depth": Key(1000, count, "Forks of forks: each names all that it inherits from (400)."),
    "limits.head_timeout": Key(
        "10s", duration, "A head that has begun to arrive must be whole by then (408)."
    ),
    "limits.body_timeout": Key("30s", duration, "The longest pause inside a body (408)."),
    "limits.write_timeout": Key("60s", duration, "A client that takes nothing for so long is cut off."),
    "limits.idle_timeout": Key("2m", duration, "An idle connection; clients keep theirs well over 5 s."),
    "limits.long_poll": Key("25s", duration, "How long a long-poll waits; below what proxies cut off at."),
    "limits.sse": Key(
        "60s", duration, "How long an SSE connection lasts, so that caches can collapse new ones."
    ),
    "limits.sse_heartbeat": Key("15s", duration, "The comment that keeps proxies from closing a quiet SSE."),
    "limits.admission_wait": Key(
        "2s", duration, "How long a write waits for room before it is refused (503)."
    ),
    "limits.parked": Key(
        "64MiB", size, "Bodies of writes that wait for room; beyond it, refused at once (503)."
    ),
    "limits.in_flight": Key(
        "64MiB", size, "Bytes decided but not durable; bounds memory when the disk is slow."
    ),
    "limits.disk_free_min": Key(
        "256MiB", size, "Free disk below which appends stop and everything else goes on."
    ),
    "limits.stop_timeout": Key(
        "8s", duration, "A stop waits so long for answers under way; 10 s in all at most."
    ),
    "journal.segment": Key("16MiB", size, "A journal file; trimming unlinks whole ones."),
    "journal.flush_after": Key(
        "32MiB", size, "Journal on disk that begins a flush; at twice this, appends wait."
    ),
    "store.checkpoint": Key("1MiB", size, "New bytes of a shard that begin a checkpoint."),
    "store.checkpoint_streams": Key(1000, count, "Changed streams of a shard that begin a checkpoint."),
    "store.memory": Key("256MiB", size, "Saved bytes kept in memory for readers, all streams together."),
    "store.streams_in_memory": Key(200000, count, "Streams at rest whose state stays in memory."),
}

_S3 = "s3_endpoint s3_region s3_access_key_id s3_secret_access_key s3_session_token"
_HISTORY = (
    "flush_interval flush_bytes hot_bytes hot_age backlog_bytes retention delete_within vacuum_after "
    f"compaction {_S3}"
).split()
NO_HISTORY = "has no effect yet: history is not part of this version"
# Keys that are accepted with a warning: other versions, and configurations for Ursula, have them.
WITHOUT_EFFECT: dict[str, str] = {
    "version": "has no effect here",
    "server.advertise": "has no effect on a single node",
    "server.hot_payload_backend": "has no effect here",
    "server.write_only_leader": "has no effect on a single node",
    **{f"history.{key}": NO_HISTORY for key in ("uri", *_HISTORY)},
    **{f"cold.{key}": NO_HISTORY for key in ("backend", "s3_bucket", *_HISTORY)},
    **{f"journal.{key}": NO_HISTORY for key in ("retain_bytes", "retain_age")},
}
# Who sets one of these counts on it: without a warning that is easily overlooked.
NOT_TO_BE_IGNORED = ("MILLSTREAM_AUTH_", "MILLSTREAM_CLUSTER_")
# What Kubernetes sets in every container beside a service called millstream-something.
_SERVICE_VARIABLE = re.compile(
    r"MILLSTREAM_(?:\w+_)?(?:SERVICE_(?:HOST|PORT(?:_\w+)?)|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)",
    re.ASCII,
)


SHARDS_MAX = 4096  # a journal file names each in its header


class Settings:
    """Checked values; `warnings` are for the log once there is one."""

    def __init__(self, values: Mapping[str, Any], warnings: list[str]) -> None:
        self._values = dict(values)
        self.warnings = warnings
        self._check_together()

    def text(self, key: str) -> str:
        return str(self._values[key])

    def number(self, key: str) -> int:
        return int(self._values[key])

    def seconds(self, key: str) -> float:
        return float(self._values[key])

    def address(self) -> tuple[str, int]:
        host, _, port = self.text("server.listen").rpartition(":")
        return host.strip("[]"), int(port)

    def _check_together(self) -> None:
        if bool(self.text("server.tls_cert")) != bool(self.text("server.tls_key")):
            raise SettingsError("server.tls_cert and server.tls_key belong together: one of them is missing.")
        if self.number("limits.uri") > self.number("limits.head"):
            raise SettingsError("limits.uri is part of limits.head and cannot be larger.")
        if self.number("limits.head") < 1024:
            raise SettingsError("limits.head below 1KiB refuses every request.")
        if self.number("server.shards") > SHARDS_MAX:
            raise SettingsError(f"server.shards is at most {SHARDS_MAX}.")


def load(config: Path | None, environment: Mapping[str, str], flags: Mapping[str, str | None]) -> Settings:
    """Flags over environment over file over defaults."""
    raw: dict[str, object] = {}
    warnings: list[str] = []
    if config is not None:
        raw.update(_from_file(config))
    raw.update(_from_environment(environment, warnings))
    for key, value in flags.items():
        if key not in KEYS and key not in WITHOUT_EFFECT:
            raise SettingsError(f"The key {key} is unknown.{_nearest(key)}")
        if value is not None:
            raw[key] = value
    warnings.extend(f"{key} {why}" for key, why in WITHOUT_EFFECT.items() if key in raw)
    values: dict[str, Any] = {}
    for key, spec in KEYS.items():
        given = raw.get(key, spec.default)
        if isinstance(given, str) and given.startswith("$"):
            name = given[1:]
            if name not in environment:
                raise SettingsError(f"{key} reads the environment variable {name}, which is not set.")
            given = environment[name]
        try:
            values[key] = spec.parse(given)
        except ValueError as wanted:
            raise SettingsError(f"{key} is {given!r}; it should be {wanted}.") from None
    return Settings(values, warnings)


def _from_file(path: Path) -> dict[str, object]:
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: {error}.") from None
    if "cluster" in content:
        raise SettingsError(
            f"{path}: [cluster] needs a server that runs as a cluster; this one is a single node."
        )
    found: dict[str, object] = {}
    for table, entries in content.items():
        names = (
            {f"{table}.{key}": value for key, value in entries.items()}
            if isinstance(entries, dict)
            else {table: entries}
        )
        for key, value in names.items():
            if key in KEYS or key in WITHOUT_EFFECT:
                found[key] = value
            else:
                raise SettingsError(f"{path}: the key {key} is unknown.{_nearest(key)}")
    return found


def _from_environment(environment: Mapping[str, str], warnings: list[str]) -> dict[str, object]:
    known = [*KEYS, *WITHOUT_EFFECT]
    names = {f"MILLSTREAM_{key.replace('.', '_').upper()}": key for key in known}
    tables = tuple({f"MILLSTREAM_{key.partition('.')[0].upper()}_" for key in known if "." in key})
    tables += NOT_TO_BE_IGNORED
    found: dict[str, object] = {}
    for name, value in environment.items():
        if name in names:
            found[names[name]] = value
        elif not name.startswith("MILLSTREAM_") or _SERVICE_VARIABLE.fullmatch(name):
            continue
        elif name.startswith(tables):
            key = name.removeprefix("MILLSTREAM_").lower().replace("_", ".", 1)
            raise SettingsError(f"The environment variable {name} names no key.{_nearest(key)}")
        else:
            warnings.append(f"the environment variable {name} names no table of keys")
    return found


def _nearest(key: str) -> str:
    same_table = [known for known in KEYS if known.partition(".")[0] == key.partition(".")[0]]
    return f" Known in this table: {', '.join(same_table)}." if same_table else ""
