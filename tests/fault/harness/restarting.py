"""Starting a killed broker again on its port, which a neighbour on a shared machine may have taken meanwhile."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Final

from tests.original import BrokerProcess, ServerFailed

from .rows import Row

PORT_TAKEN: Final = "Address already in use"
WITHIN_S: Final = 30.0
STARTING_S: Final = 0.2  # so long a warm broker recovers and opens its port


async def perhaps_killed_while_starting(broker: BrokerProcess, row: Row, chance: random.Random) -> None:
    """One of four that are to start again is started and killed first, while it recovers."""
    if chance.random() < 0.25:
        broker.launch()
        await asyncio.sleep(chance.uniform(0, STARTING_S))
        broker.kill()
        row.add(kills_while_starting=1)


def start_again(broker: BrokerProcess, row: Row) -> float:
    """Start it, and say how many seconds that took; waits only for a port in use, and counts how often."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        began = time.monotonic()
        try:
            broker.start()
        except ServerFailed as failed:
            if PORT_TAKEN not in str(failed) or time.monotonic() > deadline:
                raise
            row.add(port_was_taken=1)
            time.sleep(0.5)
        else:
            return time.monotonic() - began
