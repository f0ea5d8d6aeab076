"""Master or slave: whom a consumer is told to ask next, and what a slave says that cannot serve it.

    a master        suggests the slave to a reader far behind (`whichBrokerWhenConsumeSlowly`), else itself or what the
                    group prefers (`brokerId`); without `slaveReadEnable` always itself
    a slave         sends readers who keep up back to its master while that is there; who finds nothing is to ask the
                    master at once. Who asks for what the slave does not have is sent there too
    … alone         the master is gone: whoever finds nothing waits here, also who asks beyond the slave's end or before
                    its begin. What the master has is neither skipped nor read twice

Beyond upstream: a slave that is alone serves readers whatever `slaveReadEnable` says, and lets them wait; upstream's
refuses them, or has them ask again without a pause.

Mirrors: PullMessageProcessor.rejectRequest, composeResponseHeader, DefaultPullMessageResultHandler (PULL_OFFSET_MOVED).
"""

from __future__ import annotations

from typing import Final

from cometmq.broker.acting.group import BrokerGroup
from cometmq.broker.config import MASTER_ID, BrokerConfig
from cometmq.errors import RequestRefused
from cometmq.model.group import GroupConfig
from cometmq.wire.codes import ResponseCode

_FOUND: Final = int(ResponseCode.SUCCESS)
_NOT_FOUND: Final = int(ResponseCode.PULL_NOT_FOUND)
_OFFSET_MOVED: Final = int(ResponseCode.PULL_OFFSET_MOVED)
_RETRY_IMMEDIATELY: Final = int(ResponseCode.PULL_RETRY_IMMEDIATELY)


class ReadingPlace:
    """Asked once for each pull."""

    def __init__(self, config: BrokerConfig, group: BrokerGroup, *, is_slave: bool, checks_offsets: bool) -> None:
        self._slave_read_enable = config.slave_read_enable
        self._group = group
        self._is_slave = is_slave
        self._checks_offsets = checks_offsets

    def check(self) -> None:
        """Raise if this broker serves no readers now."""
        if self._is_slave and not self._slave_read_enable and self._group.master_is_there:
            raise RequestRefused("SYSTEM_BUSY", "[REJECTREQUEST]system busy, start flow control for a while")

    def suggest(self, group: GroupConfig, *, is_far_behind: bool = False) -> int:
        """Whom to ask next."""
        if self._is_slave and not is_far_behind and self._group.master_is_there:
            return MASTER_ID
        if not self._slave_read_enable:
            return MASTER_ID
        return group.which_broker_when_consume_slowly if is_far_behind else group.broker_id

    def code(self, code: int, *, is_far_behind: bool = False) -> int:
        """What a pull is answered, given what was found here."""
        if not self._is_slave or code == _FOUND:
            return code
        if self._group.master_is_there and not is_far_behind:
            return _RETRY_IMMEDIATELY
        if code == _OFFSET_MOVED and not self._checks_offsets:
            return _RETRY_IMMEDIATELY if self._group.master_is_there else _NOT_FOUND
        return code
