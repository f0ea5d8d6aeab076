"""Flow control: when a send is turned away at once instead of waiting in a queue that grows.

A send is stored in the turn of the event loop in which it is read, and what is not read yet waits in its socket, where
TCP holds back its sender. So there is no queue of requests to clean, and a send can wait for two things only: for the
disk, with as many others as are allowed, and for the loop, while a write stands still. Those who came meanwhile are
turned away, so that they go to another broker; the next ones try again.

Mirrors: BrokerFastFailure, SendMessageProcessor.rejectRequest.
"""

from __future__ import annotations

import asyncio

from cometmq.broker.config import BrokerConfig
from cometmq.broker.durability import Durability
from cometmq.broker.role import SLAVE
from cometmq.errors import RequestRefused


class Admission:
    """Says no to sends while the disk cannot follow."""

    def __init__(self, config: BrokerConfig, durability: Durability) -> None:
        self._is_slave = config.broker_role == SLAVE
        self._durability = durability
        self._waiting_max = config.send_thread_pool_queue_capacity
        self._busy_s = config.os_page_cache_busy_time_out_mills / 1000
        self._enabled = config.broker_fast_failure_enable
        self._busy = False

    @property
    def is_open(self) -> bool:
        """Whether `check` would not raise."""
        return not (
            self._is_slave or self.waiting_room <= 0 or (self._enabled and self._durability.last_write_s > self._busy_s)
        )

    @property
    def waiting_room(self) -> int:
        """How many sends more may wait."""
        return self._waiting_max - self._durability.waiting

    def check(self) -> None:
        """Raise if a send is not to be taken now."""
        if self._is_slave:
            raise RequestRefused("SYSTEM_BUSY", "[REJECTREQUEST]system busy, start flow control for a while")
        durability = self._durability
        if self.waiting_room <= 0:
            raise RequestRefused(
                "SYSTEM_BUSY",
                f"[OVERLOAD]system busy, start flow control for a while: {durability.waiting} sends wait for the disk",
            )
        if self._enabled and durability.last_write_s > self._busy_s:
            if not self._busy:
                self._busy = True
                asyncio.get_running_loop().call_soon(self._try_again)  # when all that came meanwhile is read
            raise RequestRefused("SYSTEM_BUSY", "[PC_SYNCHRONIZED]broker busy, start flow control for a while")

    def _try_again(self) -> None:
        self._busy = False
        self._durability.last_write_s = 0.0
