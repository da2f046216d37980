"""Start, run, stop: read from top to bottom."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import time

import uvloop

from millstream.settings import Settings, SettingsError
from millstream.wiring import Node, StartRefused, native_server, reload_tls, tune_interpreter

from .logs import set_up

log = logging.getLogger("millstream")

# Nothing here lives in a cycle for long, and a full collection over a million streams would hold up
# the loop: young objects are looked at, old ones practically never.
GC_THRESHOLDS = (10_000, 50, 100_000)


def run(settings: Settings) -> int:
    set_up(settings.text("server.log_format"))
    for warning in settings.warnings:
        log.warning("%s", warning)
    tune_interpreter()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        return uvloop.run(_serve(settings))
    except SettingsError as error:
        log.error("%s", error)
        return 2
    except StartRefused as error:
        log.error("%s", error)
        return 1


async def _serve(settings: Settings) -> int:
    began = time.perf_counter()
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    node = Node(settings)
    server = native_server(node, settings)
    await node.start()
    host, wanted_port = settings.address()
    try:
        port = await server.start(host, wanted_port)
    except OSError as error:
        await node.stop()
        raise StartRefused(f"Cannot listen on {host}:{wanted_port}: {error.strerror}.") from None
    gc.collect()
    gc.freeze()
    loop.add_signal_handler(signal.SIGHUP, reload_tls, server, settings)
    scheme = "https" if settings.text("server.tls_cert") else "http"
    shown = f"[{host}]" if ":" in host else host
    log.info("ready on %s://%s:%d after %.0f ms", scheme, shown, port, (time.perf_counter() - began) * 1000)
    await stop.wait()
    log.info("stopping")
    await server.stop(settings.seconds("limits.stop_timeout"))
    await node.stop()
    log.info("stopped")
    return 0
