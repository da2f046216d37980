"""One server-sent event, with the bytes that it was."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Event:
    kind: str
    data: str
    raw: bytes
    id: str | None = None

    @property
    def json(self) -> Any:
        return json.loads(self.data)


def parse_event(block: bytes) -> Event:
    kind, data, identifier = "message", list[str](), None
    for line in block.split(b"\n"):
        name, _, value = line.decode().partition(":")
        value = value.removeprefix(" ")
        if not name:
            return Event("comment", value, block)
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)
        elif name == "id":
            identifier = value
    return Event(kind, "\n".join(data), block, identifier)
