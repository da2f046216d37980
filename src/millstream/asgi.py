"""Millstream as an ASGI application.

    uvicorn millstream.asgi:app                       configured by MILLSTREAM_* variables
    app.mount("/streams", create_app(config="…"))     inside another application

A server that speaks the lifespan protocol opens and closes the data directory with it. A mounted
application hears no lifespan: it opens with the first request, and its host closes it by
`async with millstream_app:` in a lifespan of its own. One process, one data directory.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from millstream.http.asgi import AsgiDoor, Receive, Scope, Send
from millstream.settings import load
from millstream.wiring import Node, asgi_door, tune_interpreter


class MillstreamApp:
    def __init__(self, config: Path | str | None = None, **keys: str) -> None:
        """Keys are written with an underscore for the dot: `server_data_dir="…"`."""
        self._config = None if config is None else Path(config)
        self._keys: dict[str, str | None] = {name.replace("_", ".", 1): value for name, value in keys.items()}
        self._node: Node | None = None
        self._door: AsgiDoor | None = None
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> MillstreamApp:
        async with self._opening:
            if self._door is None:
                settings = load(self._config, os.environ, self._keys)
                tune_interpreter()
                self._node = Node(settings)
                await self._node.start()
                self._door = asgi_door(self._node, settings)
        return self

    async def __aexit__(self, *_: Any) -> None:
        async with self._opening:
            node, self._node, self._door = self._node, None, None
            if node is not None:
                await node.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._lifespan(receive, send)
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1000})  # before it is accepted: 403
        if scope["type"] != "http":
            raise NotImplementedError(f"no {scope['type']} here: streams are plain HTTP")
        if self._door is None:
            await self.__aenter__()
        assert self._door is not None
        return await self._door(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self.__aenter__()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.__aexit__()
        await send({"type": "lifespan.shutdown.complete"})


def create_app(config: Path | str | None = None, **keys: str) -> MillstreamApp:
    return MillstreamApp(config, **keys)


app = create_app()
