"""Reads streams back and compares them with what was acknowledged."""

from __future__ import annotations

import http.client
import json

from bench.harness.generator import Answer
from bench.harness.places import BenchError

STREAM_DIGITS = 6


def stream_path(prefix: str, number: int) -> str:
    return f"{prefix}{number:0{STREAM_DIGITS}d}"


def read_bodies(port: int, path: str) -> list[bytes]:
    """All of a stream, response by response, up to the tail."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    offset, bodies = "-1", []
    try:
        while True:
            connection.request("GET", f"{path}?offset={offset}")
            response = connection.getresponse()
            body = response.read()
            if response.status != 200:
                raise BenchError(f"GET {path}?offset={offset}: status {response.status}")
            bodies.append(body)
            if response.headers.get("Stream-Up-To-Date") is not None:
                return bodies
            following = response.headers.get("Stream-Next-Offset")
            if following is None or following == offset:
                raise BenchError(f"GET {path}?offset={offset} leads nowhere")
            offset = following
    finally:
        connection.close()


def check_appends(port: int, prefix: str, answer: Answer, *, body: bytes, messages: int | None) -> int:
    """The sampled streams hold what was acknowledged and nothing else. Returns how many were read."""
    for number, acknowledged in answer["sample"]:
        path = stream_path(prefix, number)
        bodies = read_bodies(port, path)
        if messages is None:
            same = b"".join(bodies) == body * acknowledged
        else:
            read = [message for part in bodies for message in json.loads(part)]
            same = len(read) == messages * acknowledged and read[:messages] == json.loads(body)[: len(read)]
        if not same:
            raise BenchError(f"{path} does not hold the {acknowledged} appends that were acknowledged")
    return len(answer["sample"])
