"""The scenarios by name, with their sizes, targets and defaults."""

from __future__ import annotations

from bench.harness.scenarios import (
    APPEND_BYTES,
    APPEND_STREAMS,
    JSON_MESSAGES,
    LIVE_EVENTS_PER_S,
    LIVE_SUBSCRIBERS,
    Point,
    Scenario,
    appends,
    binary_payload,
    catchup,
    echoed_appends,
    fill_catchup,
    json_appends,
    json_payload,
    live,
)

VARIANTS = ("millstream", "rust", "node")
STREAM_COUNTS = (10, 1_000, 100_000)
JSON_CONNECTIONS = 64
STREAMS_CONNECTIONS = 64


def _append_point(connections: int) -> Point:
    return Point(
        f"{connections} connections",
        appends(connections, APPEND_STREAMS),
        echoed_appends(connections, APPEND_STREAMS, binary_payload(APPEND_BYTES)),
    )


APPEND = Scenario(
    name="append",
    title=f"{APPEND_BYTES}-byte appends over {APPEND_STREAMS} streams, each synced before its answer",
    metric="rate",
    unit="appends/s",
    higher_is_better=True,
    points=tuple(_append_point(connections) for connections in (16, 64, 256)),
    variants=VARIANTS,
    targets={"rust": 1.0, "node": 20.0},
)

JSON_BATCHES = Scenario(
    name="json",
    title=f"JSON appends in arrays of {JSON_MESSAGES} over {APPEND_STREAMS} streams",
    metric="rate",
    unit="messages/s",
    higher_is_better=True,
    points=(
        Point(
            f"{JSON_CONNECTIONS} connections",
            json_appends(JSON_CONNECTIONS, APPEND_STREAMS),
            echoed_appends(JSON_CONNECTIONS, APPEND_STREAMS, json_payload(), JSON_MESSAGES),
        ),
    ),
    variants=("millstream", "rust"),
    targets={"rust": 1.0},
)

CATCHUP = Scenario(
    name="catchup",
    title="a 64 MiB stream read from its start",
    metric="rate",
    unit="GB/s",
    higher_is_better=True,
    points=tuple(
        Point(
            f"{connections} connection{'s' * (connections > 1)}", catchup(connections), catchup(connections)
        )
        for connections in (1, 16)
    ),
    variants=("millstream", "rust"),
    targets={"rust": 0.8},
    default_seconds=4.0,
    prepare=fill_catchup,
)

SSE = Scenario(
    name="sse",
    title=f"SSE: {LIVE_EVENTS_PER_S} events/s to {LIVE_SUBSCRIBERS} subscribers of one stream",
    metric="p99_ms",
    unit="ms p99",
    higher_is_better=False,
    points=(Point(f"{LIVE_SUBSCRIBERS} subscribers", live("sse")),),
    variants=("millstream", "rust"),
    targets={"rust": 1.5},
    default_seconds=10.0,
)

LONG_POLL = Scenario(
    name="longpoll",
    title=f"long-poll: {LIVE_EVENTS_PER_S} events/s to {LIVE_SUBSCRIBERS} subscribers of one stream",
    metric="p99_ms",
    unit="ms p99",
    higher_is_better=False,
    points=(Point(f"{LIVE_SUBSCRIBERS} subscribers", live("long-poll")),),
    variants=("millstream", "rust"),
    targets={"rust": 1.5},
    default_seconds=10.0,
)


def streams(counts: tuple[int, ...] = STREAM_COUNTS) -> Scenario:
    return Scenario(
        name="streams",
        title=f"{APPEND_BYTES}-byte appends over few and many streams, {STREAMS_CONNECTIONS} connections",
        metric="rate",
        unit="appends/s",
        higher_is_better=True,
        points=tuple(Point(f"{count:,} streams", appends(STREAMS_CONNECTIONS, count)) for count in counts),
        variants=("millstream",),
        flatness_target=0.85,
        default_seconds=12.0,
        server_per_point=True,
    )


def scenarios(stream_counts: tuple[int, ...] = STREAM_COUNTS) -> tuple[Scenario, ...]:
    return (APPEND, JSON_BATCHES, CATCHUP, SSE, LONG_POLL, streams(stream_counts))
