"""Which request codes CometMQ's servers answer, read off their handlers."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

from cometmq.wire.schema import Header

from .script import Server


def handled(server: Server) -> set[type[Header]]:
    """The requests that have a handler in one of the two servers."""
    package = importlib.import_module(f"cometmq.{server}")
    found: set[type[Header]] = set()
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for _, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if cls.__module__ == module.name:
                found.update(_marked(cls))
    return found


def _marked(cls: type) -> Iterator[type[Header]]:
    for _, method in inspect.getmembers(cls, callable):
        yield from getattr(method, "__handles__", ())
