"""SIGKILL under load: nothing acknowledged is lost, duplicated or torn, nothing seen is taken back."""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path

import pytest

from tests.crash.campaign import Campaign
from tests.support.server import Server

ACKNOWLEDGED_PER_KILL_MIN = 50  # fewer than this, and the test would not say much


def _campaign(directory: Path, kills: int) -> None:
    kills = int(os.environ.get("MILLSTREAM_CRASH_KILLS", kills))
    seed = os.environ.get("MILLSTREAM_CRASH_SEED") or secrets.token_hex(4)
    print(f"seed {seed}: MILLSTREAM_CRASH_SEED={seed} repeats the same choices")
    server = Server.native(directory)
    try:
        report = asyncio.run(Campaign(server, kills, seed).run())
    finally:
        server.close()
    print(report)
    assert not report.complaints, f"{report}\n{server.log_end()}"
    assert report.kills == kills
    assert report.acknowledged >= ACKNOWLEDGED_PER_KILL_MIN * kills
    assert report.counts["lost answers"] > 0, "no kill interrupted anything"
    assert report.counts["producers continued"] > 0


@pytest.mark.timeout(400)
def test_ten_kills_lose_duplicate_and_tear_nothing(tmp_path: Path) -> None:
    _campaign(tmp_path, 10)


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_two_hundred_kills_lose_duplicate_and_tear_nothing(tmp_path: Path) -> None:
    _campaign(tmp_path, 200)
