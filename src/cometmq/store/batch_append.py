"""Appending an inner batch: many messages as one record, which takes as many offsets of its queue as it has messages.

The record says itself where it begins and how many it holds, in the properties INNER_BASE and INNER_NUM.

Mirrors: BatchConsumeQueue.assignQueueOffset, increaseQueueOffset, CommitLog.getMessageNum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cometmq.errors import MessageRefused
from cometmq.model import properties
from cometmq.store.append import Appended, Appender
from cometmq.store.batch_queue import COUNT_MAX, BatchQueue
from cometmq.store.fs import Buffer

_PREPARED: Final = 0x4


class BatchAppender:
    """Puts inner batches into the log."""

    def __init__(self, appender: Appender) -> None:
        self._appender = appender

    def append(
        self, topic: str, queue_id: int, body: Buffer, given: Mapping[str, str], count: int, sys_flag: int, **rest: Any
    ) -> Appended:
        """Put a batch of `count` messages behind the last; a refusal uses nothing up."""
        if not -COUNT_MAX - 1 <= count <= COUNT_MAX:
            raise MessageRefused(f"the batch has {count} messages, more than {COUNT_MAX}: send it in parts")
        queue = self._appender.queue(topic, queue_id)
        if not isinstance(queue, BatchQueue):
            raise MessageRefused(f"{topic} is no topic of batches: create it with the attribute queue.type=BatchCQ")
        found = dict(given)
        takes_offsets = not sys_flag & _PREPARED
        if takes_offsets:
            found[properties.INNER_BASE] = str(queue.next_offset)
        placed = self._appender.append(
            topic,
            queue_id,
            body,
            properties.render(found).encode(),
            found.get(properties.TAGS),
            found.get(properties.KEYS),
            found.get(properties.UNIQ_KEY),
            sys_flag=sys_flag,
            **rest,
        )
        if takes_offsets:
            queue.counts[placed.physical_offset] = count
            queue.next_offset = placed.queue_offset + max(count, 1)
        return placed
