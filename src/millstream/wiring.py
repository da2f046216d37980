"""Where implementations meet: settings in, a running server out. Nothing else names them."""

from __future__ import annotations

import logging
import random
import secrets
import ssl
import sys
import time
from pathlib import Path

from msgspec import Struct

from millstream.contracts import StoreDamaged
from millstream.engine import CheckpointLimits, Engine, EngineLimits, RecoveryFailed
from millstream.http import App, LiveLimits
from millstream.http.asgi import AsgiDoor, AsgiLimits
from millstream.http.native import NativeServer, ServerLimits
from millstream.journal import JournalDamaged, ReadOnlyJournal, SegmentJournal
from millstream.settings import Settings, SettingsError
from millstream.store import DataDirectory, DirectoryRefused, KeyspaceStore, RocksMap

log = logging.getLogger("millstream")

SWITCH_INTERVAL_SECONDS = 0.0005


class StartRefused(Exception):
    """The server does not start; the message is for the operator."""


class WallClock:
    def now_us(self) -> int:
        return time.time_ns() // 1000


class SeededRandom:
    """For jitter and for ids that must not repeat; nothing here is a secret."""

    def __init__(self) -> None:
        self._random = random.Random(secrets.randbits(128))

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


def tune_interpreter() -> None:
    """The journal's thread must not wait 5 ms for the GIL after a sync."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)


class Node:
    """Everything of one process, opened; `start` and `stop` belong on the event loop."""

    def __init__(self, settings: Settings) -> None:
        began = time.perf_counter()
        path = Path(settings.text("server.data_dir"))
        try:
            self._directory = DataDirectory(path, settings.number("server.shards"))
        except DirectoryRefused as error:
            raise StartRefused(str(error)) from None
        shards = self._directory.shards
        clock, dice = WallClock(), SeededRandom()
        try:
            journal = SegmentJournal(
                path / "journal", shards, segment_bytes=settings.number("journal.segment")
            )
            store = KeyspaceStore(RocksMap(path / "store"))
            self.engine = Engine(journal, store, clock, dice, shards, engine_limits(settings), path)
        except (JournalDamaged, StoreDamaged, RecoveryFailed) as error:
            self._directory.release()
            raise StartRefused(f"The data directory is damaged. {error}") from None
        except OSError as error:
            self._directory.release()
            raise StartRefused(f"The data directory cannot be opened: {error}") from None
        self.app = App(
            self.engine, clock, dice, live_limits(settings), settings.text("server.public_url") or None
        )
        log.info(
            "node %s opened %s: %d shards, %d records replayed in %.0f ms",
            settings.text("server.node_id"),
            path,
            shards,
            self.engine.replayed,
            (time.perf_counter() - began) * 1000,
        )

    async def start(self) -> None:
        await self.engine.start()

    async def stop(self) -> None:
        self.app.live.stop()
        await self.engine.stop()
        self._directory.release()


def native_server(node: Node, settings: Settings) -> NativeServer:
    return NativeServer(node.app, server_limits(settings), tls_context(settings))


def asgi_door(node: Node, settings: Settings) -> AsgiDoor:
    limits = AsgiLimits(
        uri_bytes=settings.number("limits.uri"),
        body_bytes=settings.number("limits.body"),
        bodies_bytes=settings.number("limits.bodies"),
    )
    return AsgiDoor(node.app, limits)


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    certificate, key = settings.text("server.tls_cert"), settings.text("server.tls_key")
    if not certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(f"server.tls_cert or server.tls_key does not load: {error}.") from None
    return context


def reload_tls(server: NativeServer, settings: Settings) -> None:
    """SIGHUP: the certificate files again, for connections to come."""
    try:
        context = tls_context(settings)
    except SettingsError as error:
        log.error("the certificate was not reloaded: %s", error)
        return
    if context is None:
        log.info("SIGHUP: there is nothing to reload")
        return
    server.reload_tls(settings.text("server.tls_cert"), settings.text("server.tls_key"))
    log.info("the certificate has been reloaded")


def engine_limits(settings: Settings) -> EngineLimits:
    return EngineLimits(
        in_flight_bytes=settings.number("limits.in_flight"),
        admission_wait_seconds=settings.seconds("limits.admission_wait"),
        parked_bytes=settings.number("limits.parked"),
        messages_max=settings.number("limits.messages"),
        fork_depth_max=settings.number("limits.fork_depth"),
        disk_free_min_bytes=settings.number("limits.disk_free_min"),
        entries_max=settings.number("store.streams_in_memory"),
        checkpoint=CheckpointLimits(
            shard_bytes=settings.number("store.checkpoint"),
            shard_streams=settings.number("store.checkpoint_streams"),
            journal_bytes=settings.number("journal.flush_after"),
            memory_bytes=settings.number("store.memory"),
        ),
    )


def live_limits(settings: Settings) -> LiveLimits:
    return LiveLimits(
        long_poll_seconds=settings.seconds("limits.long_poll"),
        sse_seconds=settings.seconds("limits.sse"),
        heartbeat_seconds=settings.seconds("limits.sse_heartbeat"),
    )


def server_limits(settings: Settings) -> ServerLimits:
    return ServerLimits(
        head_bytes=settings.number("limits.head"),
        uri_bytes=settings.number("limits.uri"),
        body_bytes=settings.number("limits.body"),
        bodies_bytes=settings.number("limits.bodies"),
        pipelined_bytes=settings.number("limits.pipelined"),
        write_buffer_bytes=settings.number("limits.write_buffer"),
        head_seconds=settings.seconds("limits.head_timeout"),
        body_seconds=settings.seconds("limits.body_timeout"),
        write_seconds=settings.seconds("limits.write_timeout"),
        idle_seconds=settings.seconds("limits.idle_timeout"),
        connections=settings.number("limits.connections"),
    )


class Report(Struct):
    """What an examination found."""

    shards: int = 0
    streams: int = 0
    stored_bytes: int = 0
    records: int = 0
    blocks: int = 0
    problems: list[str] = []


def examine(path: Path, *, deep: bool) -> Report:
    """Open a data directory as a start would, but change nothing in the journal."""
    try:
        directory = DataDirectory(path, 0, create=False)
    except DirectoryRefused as error:
        raise StartRefused(str(error)) from None
    report = Report(shards=directory.shards)
    try:
        journal = ReadOnlyJournal(path / "journal", directory.shards)
        store = KeyspaceStore(RocksMap(path / "store"))
        engine = Engine(journal, store, WallClock(), SeededRandom(), directory.shards)
        report.records = engine.replayed
        for shard in range(directory.shards):
            for state, footing in store.streams(shard):
                report.streams += 1
                start = 0 if state.origin is None else state.origin.position
                report.stored_bytes += max(0, footing.saved_to - start)
                if deep:
                    _read_blocks(store, shard, state.key, state.incarnation, start, footing.saved_to, report)
        store.close()
    except (JournalDamaged, StoreDamaged, RecoveryFailed, OSError) as error:
        report.problems.append(str(error))
    finally:
        directory.release()
    return report


def _read_blocks(
    store: KeyspaceStore, shard: int, key: str, incarnation: int, start: int, end: int, report: Report
) -> None:
    try:
        for _ in store.blocks(shard, incarnation, start, end):
            report.blocks += 1
    except StoreDamaged as error:
        report.problems.append(f"{key}: {error}")
