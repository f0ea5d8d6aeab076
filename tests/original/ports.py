"""Free ports on loopback.

They are taken below the range from which the kernel serves outgoing connections (32768 and up on Linux), so that
a client's connection does not take the port between our look and the server's bind. Two processes that look at the
same moment may still choose the same one; the range is wide and the choice random, so that is rare.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence

LOWEST, HIGHEST = 15_000, 32_000
ATTEMPTS_MAX = 500

# A broker on port p also listens on p - 2 (the fast port) and p + 1 (HA).
BROKER_OFFSETS = (-2, 0, 1)


def free_port() -> int:
    """A port that nothing listens on."""
    return _free((0,))


def free_broker_port() -> int:
    """A port p where p, p - 2 and p + 1 are free."""
    return _free(BROKER_OFFSETS)


def _free(offsets: Sequence[int]) -> int:
    for _ in range(ATTEMPTS_MAX):
        port = random.randint(LOWEST, HIGHEST)
        if all(_is_free(port + offset) for offset in offsets):
            return port
    raise RuntimeError(f"no free port between {LOWEST} and {HIGHEST} in {ATTEMPTS_MAX} attempts")


def _is_free(port: int) -> bool:
    # All addresses, because the original's HA listener cannot be bound to one.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
        return True
