"""When a slave acts for its master: the NameServers say that it is the first of its group, and the master is silent.

What the NameServers say is not enough. One that was just started, or that the master alone cannot reach, names the
slave while the master works, and both would deliver the same messages. So a slave whose stream from the master lives
does not begin; while it acts it looks again and again, and ends as soon as the master is heard.

Silent is a master without a stream, or with one on which nothing came for `brokerNotActiveTimeoutMillis` (for two
heartbeats, if that is longer). One that says by itself that it is here counts as heard for as long.

What the master still sent may not be in the slave's log and queues yet, where the slave reads what is left to do: so it
begins when all of that is `settled`.

Mirrors: BrokerController.onMinBrokerChange, which asks the NameServers alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable
from typing import Final, Protocol

from cometmq.broker.acting.duties import Duties
from cometmq.broker.acting.group import BrokerGroup, Change
from cometmq.broker.config import BrokerConfig
from cometmq.store.engine import Store

log = logging.getLogger("cometmq.broker")

LOOK_EVERY_S: Final = 0.3
SETTLE_EVERY_S: Final = 0.02
SETTLED_WITHIN_S: Final = 3.0  # then it is acted all the same: the master may be stopped, and its connection stand


class Follower(Protocol):
    """What follows the master's log (`broker/ha`)."""

    source: str | None

    @property
    def connected(self) -> bool: ...

    def hears(self, within_s: float) -> bool: ...

    def told(self, ha_address: str | None, master_address: str | None) -> None: ...


class StandingIn:
    """Begins and ends the duties of a slave; `look` is called every `LOOK_EVERY_S`."""

    def __init__(self, config: BrokerConfig, group: BrokerGroup, duties: Duties, follower: Follower) -> None:
        self._may_act = config.enable_remote_escape
        self._silent_s = config.broker_not_active_timeout_millis / 1000
        self._group = group
        self._duties = duties
        self._follower = follower
        self._loop = asyncio.get_running_loop()
        self._spoke_at = -math.inf
        self._master_was_there = True
        self._warned = False
        self.on_first: Callable[[], None] = lambda: None
        self.on_master_back: Callable[[], None] = lambda: None
        group.link_is_up = lambda: follower.connected
        group.on_master = self._master_spoke
        group.on_change.append(self._changed)

    def _master_spoke(self, ha_address: str | None, address: str | None) -> None:
        self._spoke_at = self._loop.time()
        self._duties.end()
        self._follower.told(ha_address, address)

    def _changed(self, change: Change) -> None:
        if self._group.is_first:
            self.on_first()
        if change.master_is_back:
            self._follower.told(change.ha_addr, change.min_addr)
        self._decide()

    def look(self) -> None:
        was_there, self._master_was_there = self._master_was_there, self._group.master_is_there
        if self._master_was_there and not was_there:
            self.on_master_back()
        self._decide()

    def _decide(self) -> None:
        is_first, hears = self._group.is_first, self._hears()
        lives = is_first and hears and self._follower.connected
        if lives and self._may_act and not self._warned:
            log.warning("a name server does not know the master, but the master lives: this slave does not act for it")
        self._warned = lives
        if is_first and not hears and self._may_act:
            self._duties.begin()
        else:
            self._duties.end()

    def _hears(self) -> bool:
        spoke = self._loop.time() - self._spoke_at <= self._silent_s
        return spoke or self._follower.hears(self._silent_s)


async def settled(store: Store, follower: Follower) -> None:
    """Return when everything that the master sent is in the log and in the queues."""

    def all_is_seen() -> bool:
        return not (follower.connected or store.confirm_offset < store.written_offset or store.dispatch_behind_bytes)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SETTLED_WITHIN_S):
            while not all_is_seen():  # noqa: ASYNC110 (the stream, the disk and dispatch have no event in common)
                await asyncio.sleep(SETTLE_EVERY_S)
