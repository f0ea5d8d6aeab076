"""Offsets that consumers committed at a slave while its master was gone, given back to the master when it is there.

A slave copies its master's offsets again and again, and would so forget what was committed here. `Offsets.follow` keeps
what is ahead of the master's, and here it is committed there as a consumer would do it, so that a Java master takes it
too. What the master has taken, the next copy of its table shows.

Nothing is given to a master whose log ours does not follow (`SlaveSide.source`), nor an offset beyond what it has: a
master that lost messages would have its consumers skip as many new ones.

Mirrors: nothing; upstream's slave forgets them (SlaveSynchronize.syncConsumerOffset).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from cometmq.broker.offsets import SEPARATOR, Offsets
from cometmq.errors import CometError, PeerRefused
from cometmq.net.pool import Pool
from cometmq.wire.requests.consume import GetMaxOffset, OffsetReply, UpdateConsumerOffset

log = logging.getLogger("cometmq.broker")


class GivenBack:
    """Of a slave."""

    def __init__(self, offsets: Offsets, source: Callable[[], str | None]) -> None:
        self._offsets = offsets
        self._source = source
        self._pool = Pool()
        self._task: asyncio.Task[None] | None = None
        offsets.committed_here = {}
        offsets.on_ahead = self._give_soon

    def _give_soon(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._give(), name="giving offsets back")

    async def _give(self) -> None:
        address = self._source()
        if address is None:
            return
        for (key, queue_id), offset in list((self._offsets.committed_here or {}).items()):
            topic, _, group = key.partition(SEPARATOR)
            try:
                channel = await self._pool.channel(address)
                end = OffsetReply.read((await channel.call(GetMaxOffset(topic, queue_id))).ext).offset
                if self._source() != address:
                    return
                if offset <= end:
                    await channel.call(UpdateConsumerOffset(topic, group, queue_id, offset))
                else:
                    log.info("the master has no offset %d of %s, queue %d: %d is its last", offset, key, queue_id, end)
            except PeerRefused as refused:
                log.info("the master does not take offset %d of %s, queue %d: %s", offset, key, queue_id, refused)
            except CometError:
                return  # the next copy of the table tries again

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._pool.close()
