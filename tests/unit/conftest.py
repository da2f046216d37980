"""Hypothesis, modestly: these suites run on every change."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("unit", max_examples=40, deadline=None, database=None, print_blob=True)
settings.load_profile("unit")
