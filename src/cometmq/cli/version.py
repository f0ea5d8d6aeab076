"""`cometmq version`."""

from __future__ import annotations

from cometmq import __version__


def run(arguments: list[str]) -> int:
    print(f"CometMQ {__version__}, compatible with Apache RocketMQ 5.5.0")
    return 0
