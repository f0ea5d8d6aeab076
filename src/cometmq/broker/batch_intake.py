"""Taking in a batch: as the messages it is made of, or as one record where its topic keeps batches whole.

A batch of 4 MiB may hold 180,000 messages. Reading so many takes turns with whatever else the broker has to do; what
comes after it on the same connection may so be stored before it. Appending them is one step, as always.

Mirrors: SendMessageProcessor.sendBatchMessage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from typing import Final

from cometmq.broker.acknowledgements import BatchReceipt, Receipt
from cometmq.broker.delivered_marks import may_have_marks, without_marks
from cometmq.broker.durability import Durability
from cometmq.broker.inner_batches import WRAPPED_HERE, check_marks, check_not_delayed
from cometmq.broker.intake import Destination, illegal
from cometmq.broker.sent_properties import SentProperties, waits
from cometmq.errors import MessageRefused, ProtocolError, RequestRefused
from cometmq.model import properties
from cometmq.net.routes import Call
from cometmq.store.append import BatchItem
from cometmq.store.engine import Store
from cometmq.wire.batch import split_parts
from cometmq.wire.message_id import offset_id

AT_ONCE_MAX: Final = 2_048  # messages that are read without giving way
IN_TURNS_MAX: Final = 4  # batches that are read so at a time, as each keeps its messages in memory


class BatchIntake:
    """Takes batches that have passed the checks of their header."""

    def __init__(self, store: Store, durability: Durability, sent: SentProperties) -> None:
        self._store = store
        self._durability = durability
        self._sent = sent
        self._id_prefix = store.store_host.hex().upper()
        self._in_turns = 0

    def take(
        self, destination: Destination, born_time_ms: int, outer: Mapping[str, str], call: Call
    ) -> Coroutine[None, None, None] | None:
        """Store the messages of a batch one by one; `outer` are the properties of the batch itself.

        What it returns is to be awaited: a batch too large to be read at once.
        """
        limit = self._store.config.max_message_size
        if len(call.command.body) > limit:
            raise RequestRefused(
                "SYSTEM_ERROR", f"message body size exceeded: the batch has {len(call.command.body)} of {limit} bytes"
            )
        parts = self._items(call)
        items = next(parts)
        if len(items) == AT_ONCE_MAX and self._in_turns < IN_TURNS_MAX:
            return self._take_in_turns(destination, born_time_ms, items, parts, outer, call)
        for part in parts:
            items += part
        self._append(destination, born_time_ms, items, outer, call)
        return None

    def _items(self, call: Call) -> Iterator[list[BatchItem]]:
        for messages in split_parts(call.command.body, AT_ONCE_MAX):
            yield self._sent.of_batch(without_marks(messages) if may_have_marks(messages) else messages)

    async def _take_in_turns(
        self,
        destination: Destination,
        born_time_ms: int,
        items: list[BatchItem],
        parts: Iterator[list[BatchItem]],
        outer: Mapping[str, str],
        call: Call,
    ) -> None:
        self._in_turns += 1
        try:
            for part in parts:
                items += part
                await asyncio.sleep(0)
        finally:
            self._in_turns -= 1
        self._append(destination, born_time_ms, items, outer, call)

    def _append(
        self,
        destination: Destination,
        born_time_ms: int,
        items: list[BatchItem],
        outer: Mapping[str, str],
        call: Call,
    ) -> None:
        topic, queue_id, _, sys_flag, reconsume_times = destination
        if waiting := waits(outer):
            self._durability.check_replicas()
        try:
            check_marks(sys_flag, outer)
            offsets, queue_offset, end = self._store.append_batch(
                topic,
                queue_id,
                items,
                sys_flag,
                born_time_ms,
                call.channel.peer_host,
                reconsume_times,
            )
        except MessageRefused as refused:
            raise illegal(refused, self._store) from None
        ids = (f"{self._id_prefix}%016X," * len(offsets))[:-1] % tuple(offsets)
        receipt = Receipt(ids, queue_id, queue_offset, outer.get(properties.UNIQ_KEY))
        self._durability.answer_when_safe(end, call, receipt, sync=waiting)

    def take_whole(
        self, destination: Destination, born_time_ms: int, found: dict[str, str], count: int, call: Call
    ) -> None:
        """Store a batch of `count` messages as one record."""
        topic, queue_id, flag, sys_flag, reconsume_times = destination
        found.pop(properties.DELIVERED_MARK, None)
        uniq_key = found[properties.UNIQ_KEY]
        wrapped = sys_flag & WRAPPED_HERE == WRAPPED_HERE
        if not call.command.body:
            raise ProtocolError(f"the message to {topic} has no body; send at least one byte")
        if waiting := waits(found):
            self._durability.check_replicas()
        try:
            check_not_delayed(found)
            at, size, queue_offset, _ = self._store.append_inner_batch(
                topic,
                queue_id,
                call.command.body,
                found,
                count,
                sys_flag,
                flag=flag,
                born_time_ms=born_time_ms,
                born_host=call.channel.peer_host,
                reconsume_times=reconsume_times,
            )
        except MessageRefused as refused:
            refusal = illegal(refused, self._store)
            refusal.fields = {"batchUniqId": uniq_key} if wrapped else None
            raise refusal from None
        message_id = offset_id(self._store.store_host, at)
        receipt = Receipt(message_id, queue_id, queue_offset, uniq_key)
        if wrapped:
            receipt = BatchReceipt(message_id, queue_id, queue_offset, None)
            receipt.uniq_key = uniq_key
        self._durability.answer_when_safe(at + size, call, receipt, sync=waiting)
