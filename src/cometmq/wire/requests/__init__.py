"""Request and reply headers, by verb family. Importing this package declares them all."""

from __future__ import annotations

from cometmq.wire.requests import admin, consume, members, namesrv, query, send

__all__ = ["admin", "consume", "members", "namesrv", "query", "send"]
