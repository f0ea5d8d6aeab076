"""A master that comes back: before anybody hears of it, it asks its slaves what they did meanwhile.

Each slave is told first that its master is here, upon which it acts no more; then it says how far it is: consumers'
offsets, delay levels, the timer. What it is ahead in is taken over, so nothing is delivered or consumed again. A slave
that does not answer is passed over after `ANSWER_MS`: the master starts without it.

Mirrors: BrokerPreOnlineService.prepareForMasterOnline, syncMetadataReverse; there a table is taken whole if its version
is not older, and the master waits for every slave.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from cometmq.broker.acting.group import BrokerGroup
from cometmq.broker.config import MASTER_ID
from cometmq.broker.offsets import Offsets
from cometmq.broker.replicated import Replicated
from cometmq.errors import CometError
from cometmq.net.pool import Pool
from cometmq.wire.requests.consume import GetAllConsumerOffset
from cometmq.wire.requests.replicas import ExchangeHaInfo

log = logging.getLogger("cometmq.broker")

ANSWER_MS: Final = 3_000


class Returning:
    """Used once, at the start."""

    def __init__(
        self,
        group: BrokerGroup,
        offsets: Offsets,
        tables: Sequence[Replicated],
        max_offset: Callable[[str, int], int],
        first_end: int,
    ) -> None:
        self._group = group
        self._first_end = first_end
        own = Replicated("consumer offsets", GetAllConsumerOffset(), lambda body: offsets.take_back(body, max_offset))
        self._tables = [own, *tables]

    async def take_back(self, members: Mapping[int, str]) -> None:
        """Ask every slave among the members."""
        pool = Pool()
        try:
            for broker_id, address in sorted(members.items()):
                if broker_id != MASTER_ID and address != self._group.own_addr:
                    await self._ask(pool, address)
        finally:
            await pool.close()

    async def _ask(self, pool: Pool, address: str) -> None:
        group = self._group
        try:
            channel = await pool.channel(address, timeout_ms=ANSWER_MS)
            here = ExchangeHaInfo(group.own_ha_addr, self._first_end, group.own_addr)
            await channel.call(here, timeout_ms=ANSWER_MS)
            for table in self._tables:
                table.take(bytes((await channel.call(table.request, timeout_ms=ANSWER_MS)).body))
        except (CometError, AttributeError, TypeError, ValueError) as fault:
            log.warning("the slave at %s does not say what it did while this master was gone: %s", address, fault)
