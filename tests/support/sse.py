"""Reading server-sent events over a raw connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.support.http import HEAD_BYTES_MAX, Head, Lost, close_writer, encode_request, read_body, read_head


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    data: str
    identifier: str | None = None


@asynccontextmanager
async def subscribe(host: str, port: int, target: str) -> AsyncIterator[tuple[Head, AsyncIterator[Event]]]:
    """The answer's head, and its events as they come; raises Lost where they are cut off."""
    reader, writer = await asyncio.open_connection(host, port, limit=HEAD_BYTES_MAX)
    try:
        headers = {"Accept": "text/event-stream"}
        writer.write(encode_request("GET", target, f"{host}:{port}", headers, b""))
        try:
            head = await read_head(reader)
        except (asyncio.IncompleteReadError, ValueError, OSError) as error:
            raise Lost(f"no answer: {error}") from error
        yield head, parse(read_body(reader, head, "GET"))
    finally:
        await close_writer(writer)


async def parse(pieces: AsyncIterator[bytes]) -> AsyncIterator[Event]:
    rest = b""
    kind, data, identifier = "message", list[str](), None
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for raw in lines:
            line = raw.removesuffix(b"\r").decode()
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if not line:
                if data:
                    yield Event(kind, "\n".join(data), identifier)
                kind, data, identifier = "message", [], None
            elif name == "event":
                kind = value
            elif name == "data":
                data.append(value)
            elif name == "id":
                identifier = value
