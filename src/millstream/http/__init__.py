"""HTTP: routes and handlers, behind a native door and an ASGI door."""

from .app import App
from .live import LiveLimits

__all__ = ["App", "LiveLimits"]
