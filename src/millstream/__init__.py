"""Millstream: many small, durable, append-only streams over plain HTTP."""

__version__ = "0.1.0"
