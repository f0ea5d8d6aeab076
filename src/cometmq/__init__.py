"""CometMQ: Apache RocketMQ's architecture in Python.

`ls` teaches the design; ARCHITECTURE.md tells it. Imports between the sub-packages go down only.
"""

from __future__ import annotations

__version__ = "0.1.0"
