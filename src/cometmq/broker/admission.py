"""Flow control: when a send is turned away at once instead of waiting in a queue that grows.

Mirrors: BrokerFastFailure, SendMessageProcessor.rejectRequest.
"""

from __future__ import annotations

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

    @property
    def is_open(self) -> bool:
        """Whether `check` would not raise."""
        return not (
            self._is_slave
            or len(self._durability.waiters) >= self._waiting_max
            or (self._enabled and self._durability.last_write_s > self._busy_s)
        )

    def check(self) -> None:
        """Raise if a send is not to be taken now."""
        if self._is_slave:
            raise RequestRefused("SYSTEM_BUSY", "[REJECTREQUEST]system busy, start flow control for a while")
        durability = self._durability
        if len(durability.waiters) >= self._waiting_max:
            raise RequestRefused(
                "SYSTEM_BUSY",
                "[OVERLOAD]system busy, start flow control for a while: "
                f"{len(durability.waiters)} sends wait for the disk",
            )
        if self._enabled and durability.last_write_s > self._busy_s:
            durability.last_write_s = 0.0  # the next send tries again
            raise RequestRefused("SYSTEM_BUSY", "[PC_SYNCHRONIZED]broker busy, start flow control for a while")
