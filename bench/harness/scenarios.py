"""What is measured: scenarios made of points, each a function of one running server."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench.harness.generator import Answer, Generator
from bench.harness.places import BenchError
from bench.harness.servers import Server
from bench.harness.verify import check_appends, read_bodies, stream_path

BINARY = "application/octet-stream"
JSON = "application/json"

APPEND_BYTES = 256
APPEND_STREAMS = 500
JSON_MESSAGES = 100
CATCHUP_BYTES = 64 * 1024 * 1024
CATCHUP_APPEND_BYTES = 64 * 1024
LIVE_SUBSCRIBERS = 1000
LIVE_EVENTS_PER_S = 50
LIVE_WARMUP_S = 2.0
WARMUP_S = 1.0
CREATE_CONNECTIONS = 16


@dataclass(frozen=True)
class Context:
    server: Server
    generator: Generator
    scratch: Path
    seconds: float
    min_appends: int
    round_number: int

    def body(self, name: str, content: bytes) -> str:
        path = self.scratch / f"{name}-{hashlib.sha256(content).hexdigest()[:8]}.body"
        path.write_bytes(content)
        return str(path)


@dataclass(frozen=True)
class Point:
    name: str
    measure: Callable[[Context], Answer]
    on_echo: Callable[[Context], Answer] | None = None


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    metric: str
    unit: str
    higher_is_better: bool
    points: tuple[Point, ...]
    variants: tuple[str, ...]
    targets: dict[str, float] = field(default_factory=dict)
    flatness_target: float | None = None
    default_seconds: float = 8.0
    prepare: Callable[[Context], None] | None = None
    server_per_point: bool = False


def binary_payload(length: int) -> bytes:
    return random.Random(length).randbytes(length)


def json_payload() -> bytes:
    messages = [
        {"id": number, "user": f"user-{number:03d}", "kind": "click", "value": number * 0.25, "ok": True}
        for number in range(JSON_MESSAGES)
    ]
    return json.dumps(messages, separators=(",", ":")).encode()


def _append_load(context: Context, prefix: str, content_type: str, body: bytes, **sizes: int) -> Answer:
    return context.generator.run(
        "append",
        context.server.port,
        server_pids=context.server.pids,
        path_prefix=prefix,
        content_type=content_type,
        body_file=context.body("append", body),
        seconds=context.seconds,
        warmup=WARMUP_S,
        min_requests=context.min_appends,
        seed=1 + context.round_number,
        **sizes,
    )


def appends(connections: int, streams: int) -> Callable[[Context], Answer]:
    body = binary_payload(APPEND_BYTES)
    return _appends(connections, streams, BINARY, body, None)


def json_appends(connections: int, streams: int) -> Callable[[Context], Answer]:
    return _appends(connections, streams, JSON, json_payload(), JSON_MESSAGES)


def _appends(
    connections: int, streams: int, content_type: str, body: bytes, messages: int | None
) -> Callable[[Context], Answer]:
    prefix = f"/v1/stream/c{connections}-of{streams}-"

    def measure(context: Context) -> Answer:
        created = context.generator.run(
            "create",
            context.server.port,
            connections=CREATE_CONNECTIONS,
            streams=streams,
            path_prefix=prefix,
            content_type=content_type,
        )
        answer = _append_load(context, prefix, content_type, body, connections=connections, streams=streams)
        answer["rate"] = answer["requests"] * (messages or 1) / answer["seconds"]
        answer["streams_verified"] = check_appends(
            context.server.port, prefix, answer, body=body, messages=messages
        )
        answer["creates_per_s"] = created["requests"] / created["seconds"]
        del answer["sample"]
        return answer

    return measure


def echoed_appends(
    connections: int, streams: int, body: bytes, messages: int = 1
) -> Callable[[Context], Answer]:
    def measure(context: Context) -> Answer:
        answer = _append_load(
            context, "/v1/stream/echo-", BINARY, body, connections=connections, streams=streams
        )
        answer["rate"] = answer["requests"] * messages / answer["seconds"]
        return answer

    return measure


def fill_catchup(context: Context) -> None:
    body = binary_payload(CATCHUP_APPEND_BYTES)
    appends_needed = CATCHUP_BYTES // CATCHUP_APPEND_BYTES
    port = context.server.port
    context.generator.run("create", port, path_prefix="/v1/stream/big-", content_type=BINARY)
    context.generator.run(
        "fill",
        port,
        path_prefix="/v1/stream/big-",
        content_type=BINARY,
        body_file=context.body("fill", body),
        min_requests=appends_needed,
    )
    read = hashlib.sha256(b"".join(read_bodies(port, stream_path("/v1/stream/big-", 0)))).digest()
    if read != hashlib.sha256(body * appends_needed).digest():
        raise BenchError("the catch-up stream reads back as other bytes than were appended")


def catchup(connections: int) -> Callable[[Context], Answer]:
    def measure(context: Context) -> Answer:
        answer = context.generator.run(
            "read",
            context.server.port,
            server_pids=context.server.pids,
            path_prefix=stream_path("/v1/stream/big-", 0),
            connections=connections,
            bytes=CATCHUP_BYTES,
            seconds=context.seconds,
            warmup=WARMUP_S,
        )
        answer["rate"] = answer["bytes"] / answer["seconds"] / 1e9
        return answer

    return measure


def live(mode: str) -> Callable[[Context], Answer]:
    def measure(context: Context) -> Answer:
        port, prefix = context.server.port, f"/v1/stream/{mode}-"
        context.generator.run("create", port, path_prefix=prefix, content_type=JSON)
        answer = context.generator.run(
            "live",
            port,
            server_pids=context.server.pids,
            path_prefix=stream_path(prefix, 0),
            live=mode,
            connections=LIVE_SUBSCRIBERS,
            rate=LIVE_EVENTS_PER_S,
            seconds=context.seconds,
            warmup=LIVE_WARMUP_S,
        )
        answer["p99_ms"] = answer["p99_us"] / 1000
        return answer

    return measure
