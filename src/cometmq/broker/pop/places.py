"""Where a group goes on popping in a queue, and where a new one starts.

    committed offset, or the end of the last pop in line if that is further; an offset that an admin has reset wins
    over both, once

A new group starts at the queue's beginning with initMode 0 and in retry topics; with initMode 1 it starts at the last
message, or at 0 if the queue's first message is still recent.

Mirrors: PopMessageProcessor.getPopOffset, getInitOffset, resetPopOffset.
"""

from __future__ import annotations

from typing import Final

from cometmq.broker.config import BrokerConfig
from cometmq.broker.offsets import Offsets
from cometmq.broker.order_info import OrderInfos
from cometmq.broker.pop.buffer import Books
from cometmq.model.names import RETRY_PREFIX
from cometmq.store.engine import Store
from cometmq.store.reader import ReadStatus

FROM_MIN: Final = 0


class Places:
    """Looks up and starts offsets of pop."""

    def __init__(
        self, config: BrokerConfig, offsets: Offsets, buffer: Books, order_infos: OrderInfos, store: Store
    ) -> None:
        self._by_memory = config.init_pop_offset_by_check_msg_in_mem
        self._offsets = offsets
        self._buffer = buffer
        self._order_infos = order_infos
        self._store = store

    def next_offset(self, topic: str, group: str, queue_id: int, init_mode: int) -> int:
        """Where to pop; a group that is new to the queue has an offset from now on."""
        reset = self._offsets.take_reset(group, topic, queue_id)
        if reset is not None:
            self._order_infos.clear_block(topic, group, queue_id)
            self._buffer.forget(topic, group, queue_id)
            self._offsets.commit(group, topic, queue_id, reset)
            return reset
        offset = self._offsets.query(group, topic, queue_id)
        if offset is None:
            offset = self._first_offset(topic, queue_id, init_mode)
            self._offsets.commit(group, topic, queue_id, offset)
        return max(offset, self._buffer.latest(topic, group, queue_id))

    def seen_offset(self, topic: str, group: str, queue_id: int) -> int:
        """The same for who only looks, or what is to be handed out again before: nothing is started."""
        again = self._buffer.overdue(topic, group, queue_id)
        if again is not None:
            return again
        offset = self._offsets.query(group, topic, queue_id)
        if offset is None:
            offset = self._store.min_offset(topic, queue_id)
        return max(offset, self._buffer.latest(topic, group, queue_id))

    def _first_offset(self, topic: str, queue_id: int, init_mode: int) -> int:
        store = self._store
        if init_mode == FROM_MIN or topic.startswith(RETRY_PREFIX):
            return store.min_offset(topic, queue_id)
        if self._by_memory and store.min_offset(topic, queue_id) <= 0:
            found = store.read(topic, queue_id, 0, 1)
            if found.status is ReadStatus.FOUND and not found.suggest_slave:  # it is in memory, by Java's reckoning
                return 0
        return max(store.max_offset(topic, queue_id) - 1, 0)
