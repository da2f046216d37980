"""The native door: asyncio.Protocol on uvloop, with httptools as the judge of what is HTTP."""

from .server import NativeServer, ServerLimits

__all__ = ["NativeServer", "ServerLimits"]
