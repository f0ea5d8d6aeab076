"""Acknowledging popped messages, one or many, and asking for more time.

An acknowledgement meets its checkpoint in the buffer, or is written behind it in the revive topic, together with the
others of its pop that come in the same turn of the loop; it is answered when it is safe. Of messages popped in order it
moves the group's offset at once. A receipt that names nothing is answered as upstream does: with success where only
reviving could tell, and then nothing changes.
More time is a new checkpoint for the one message, and the old receipt acknowledged.

Mirrors: AckMessageProcessor, ChangeInvisibleTimeProcessor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from cometmq.broker.durability import Durability
from cometmq.broker.offsets import Offsets
from cometmq.broker.order_info import ILLEGAL, OrderInfos
from cometmq.broker.pop.buffer import Books
from cometmq.broker.pop.checkpoint import Ack, CheckPoint, MergeKey
from cometmq.broker.pop.checks import Checks, null_field, refusing_with
from cometmq.broker.pop.handle import Receipt, read_receipt
from cometmq.broker.pop.inflight import Inflight
from cometmq.broker.pop.retry_topic import ORDER_REVIVE_QUEUE, marked_topic
from cometmq.broker.pop.revive_log import ReviveLog
from cometmq.clock import Clock
from cometmq.errors import RequestRefused, StoreError, StoreNotWritable
from cometmq.net.routes import DONE, LATER, Call, Later, handles
from cometmq.store.append import Appended
from cometmq.store.engine import Store
from cometmq.wire.bodies.acks import BatchAck, read_batch_acks
from cometmq.wire.requests.pop import AckMessage, BatchAckMessage, ChangeInvisibleTime, ChangeInvisibleTimeReply
from cometmq.wire.schema import Header

SAME_MS: Final = 1_000  # a pop time so little ahead of the clock was made by an earlier change
OFFSETS_MAX: Final = 4_096  # of one batch of one pop: pop hands out 32, a made-up bit set may name any number

NotifyQueue = Callable[[str, str, int], None]  # topic, group, queue id


class Acknowledging:
    """Takes receipts back."""

    def __init__(
        self,
        checks: Checks,
        offsets: Offsets,
        buffer: Books,
        inflight: Inflight,
        revive_log: ReviveLog,
        order_infos: OrderInfos,
        store: Store,
        durability: Durability,
        clock: Clock,
        notify_queue: NotifyQueue,
    ) -> None:
        self._checks = checks
        self._offsets = offsets
        self._buffer = buffer
        self._inflight = inflight
        self._revive_log = revive_log
        self._order_infos = order_infos
        self._store = store
        self._durability = durability
        self._clock = clock
        self._notify_queue = notify_queue
        self._loop = asyncio.get_running_loop()
        # By pop, revive queue and revive time: the offsets that are done, and who waits to hear that they are.
        self._gathered: dict[tuple[MergeKey, int, int], dict[int, list[Call]]] = {}

    @handles(AckMessage)
    def ack(self, request: AckMessage, call: Call) -> Header | Later:
        queue_id = self._checks.receipt_place(request.topic, request.queue_id, call)
        offset = request.offset
        if offset is None:
            raise null_field("offset")
        low, high = self._store.min_offset(request.topic, queue_id), self._store.max_offset(request.topic, queue_id)
        if not low <= offset <= high:
            raise RequestRefused(
                "NO_MESSAGE",
                f"offset is illegal, key:{request.topic}@{queue_id}, commit:{offset}, store:{low}~{high}",
            )
        receipt = read_receipt(request.extra_info)
        group = request.consumer_group
        if group is None:
            return DONE  # nobody's: no checkpoint can match it
        if receipt.is_order:
            self._ack_in_order(request.topic, group, queue_id, offset, receipt, call)
            return DONE
        ack = self._ack_of(receipt, request.topic, group, queue_id, [offset])
        self._inflight.done(request.topic, group, queue_id, receipt.pop_time_ms, 1)
        if receipt.revive_queue not in self._revive_log or self._buffer.acknowledge(ack):
            return DONE
        self._gather(ack, receipt, offset, call)
        return LATER

    def _gather(self, ack: Ack, receipt: Receipt, offset: int, call: Call) -> None:
        """Acknowledgements of one pop that come in one turn of the loop are written together."""
        if not self._gathered:
            self._loop.call_soon(self.flush)
        key = ack.key, receipt.revive_queue, _revive_time(receipt)
        found = self._gathered.get(key)
        if found is None:
            self._gathered[key] = {offset: [call]}
        else:
            found.setdefault(offset, []).append(call)

    def flush(self) -> None:
        """Write what was gathered; who waits for it is answered when it is safe."""
        gathered, self._gathered = self._gathered, {}
        for (key, revive_queue, revive_time_ms), found in gathered.items():
            calls = [call for waiting in found.values() for call in waiting]
            try:
                ack = Ack(*key, list(found))
                placed = self._put_ack(ack, revive_queue, revive_time_ms, batch=len(found) > 1)
            except StoreError as fault:
                for call in calls:
                    call.refuse(fault)
                continue
            self._answer_all(calls, DONE, placed)

    @handles(BatchAckMessage)
    def ack_batch(self, request: BatchAckMessage, call: Call) -> Header | Later:
        acks = read_batch_acks(call.body) if len(call.body) else None
        if acks is None or not acks.acks:
            raise RequestRefused("NO_MESSAGE", "the batch names no acknowledgements")
        placed = None
        for one in acks.acks:
            placed = self._ack_some(one, acks.broker_name, call) or placed
        return self._answer(call, DONE, placed)

    def _ack_some(self, one: BatchAck, broker_name: str | None, call: Call) -> Appended | None:
        """The messages of one pop in a batch; those that the queue does not hold are left out."""
        if one.topic is None or one.retry is None or one.bits is None:
            raise RequestRefused("SYSTEM_ERROR", "an acknowledgement of the batch lacks its topic, retry mark or bits")
        if one.group is None:
            return None  # nobody's: no checkpoint can match it
        topic = marked_topic(one.topic, one.group, one.retry)
        if topic is None:
            raise RequestRefused("SYSTEM_ERROR", f"an acknowledgement of the batch is of no known kind: {one.retry!r}")
        low, high = self._store.min_offset(topic, one.queue_id), self._store.max_offset(topic, one.queue_id)
        offsets = []
        for offset in one.offsets():
            if low <= offset <= high:
                offsets.append(offset)
                if len(offsets) >= OFFSETS_MAX:
                    break
        receipt = Receipt(one.start_offset, one.pop_time_ms, one.invisible_time_ms, one.revive_queue, broker_name or "")
        if one.revive_queue == ORDER_REVIVE_QUEUE:
            for offset in offsets:
                self._ack_in_order(topic, one.group, one.queue_id, offset, receipt, call)
            return None
        if not offsets:
            return None
        ack = Ack(topic, one.group, one.queue_id, one.start_offset, one.pop_time_ms, broker_name, offsets)
        self._inflight.done(topic, one.group, one.queue_id, one.pop_time_ms, len(offsets))
        return self._put_ack(ack, one.revive_queue, _revive_time(receipt), batch=True)

    def _ack_in_order(self, topic: str, group: str, queue_id: int, offset: int, receipt: Receipt, call: Call) -> None:
        committed = self._offsets.query(group, topic, queue_id)
        if committed is not None and offset < committed:
            return
        next_offset = self._order_infos.commit_and_next(topic, group, queue_id, offset, receipt.pop_time_ms)
        if next_offset >= 0:
            if not self._offsets.has_reset(group, topic, queue_id):
                self._offsets.commit(group, topic, queue_id, next_offset)
            if not self._order_infos.blocked(topic, group, queue_id, receipt.invisible_time_ms):
                self._notify_queue(topic, group, queue_id)
        elif next_offset == ILLEGAL:
            old = -1 if committed is None else committed
            raise RequestRefused(
                "MESSAGE_ILLEGAL",
                f"offset is illegal, key:{topic}@{group}@{queue_id}, old:{old}, commit:{offset}, "
                f"next:{next_offset}, {call.channel.peer}",
            )

    # --- more time

    @handles(ChangeInvisibleTime)
    @refusing_with(ChangeInvisibleTimeReply())
    def change_invisible_time(self, request: ChangeInvisibleTime, call: Call) -> Header | Later:
        topic = request.topic
        queue_id = self._checks.receipt_place(topic, request.queue_id, call)
        offset = request.offset
        if offset is None:
            raise null_field("offset")
        if not self._store.min_offset(topic, queue_id) <= offset < self._store.max_offset(topic, queue_id):
            raise RequestRefused("NO_MESSAGE", f"queue {queue_id} of {topic} holds no message {offset}")
        receipt = read_receipt(request.extra_info)
        invisible_ms, group = request.invisible_time, request.consumer_group
        if invisible_ms is None:
            raise null_field("invisibleTime")
        now_ms = self._clock.now_ms()
        if receipt.is_order:
            return self._change_in_order(topic, group, queue_id, offset, receipt, now_ms + invisible_ms)
        # Two checkpoints of one start and one time would be taken for one, and messages of the first be lost.
        now_ms = max(now_ms, receipt.pop_time_ms + 1) if now_ms - receipt.pop_time_ms > -SAME_MS else now_ms
        reply = ChangeInvisibleTimeReply(now_ms, invisible_ms, receipt.revive_queue)
        if group is None or receipt.revive_queue not in self._revive_log:
            return reply  # a receipt that no pop gave: nothing to change
        if self._buffer.prolong(topic, group, queue_id, offset, now_ms + invisible_ms):
            return reply
        point = CheckPoint(
            topic,
            group,
            queue_id,
            offset,
            now_ms,
            invisible_ms,
            receipt.broker_name,
            [0],
            suspend=request.suspend,
        )
        try:
            placed = self._revive_log.put_checkpoint(point, receipt.revive_queue)
        except RequestRefused as refusal:
            remark = f"the invisible time was not changed: {refusal}"
            raise RequestRefused("SYSTEM_ERROR", remark, ChangeInvisibleTimeReply().write()) from None
        old = self._ack_of(receipt, topic, group, queue_id, [offset])
        placed = self._put_ack(old, receipt.revive_queue, _revive_time(receipt), batch=False) or placed
        return self._answer(call, reply, placed)

    def _change_in_order(
        self, topic: str, group: str | None, queue_id: int, offset: int, receipt: Receipt, visible_ms: int
    ) -> ChangeInvisibleTimeReply:
        committed = self._offsets.query(group or "null", topic, queue_id)
        if group is None or (committed is not None and offset < committed):
            return ChangeInvisibleTimeReply()
        self._order_infos.update_next_visible_time(topic, group, queue_id, offset, receipt.pop_time_ms, visible_ms)
        return ChangeInvisibleTimeReply(receipt.pop_time_ms, visible_ms - receipt.pop_time_ms, ORDER_REVIVE_QUEUE)

    # --- writing

    @staticmethod
    def _ack_of(receipt: Receipt, topic: str, group: str, queue_id: int, offsets: list[int]) -> Ack:
        return Ack(topic, group, queue_id, receipt.start_offset, receipt.pop_time_ms, receipt.broker_name, offsets)

    def _put_ack(self, ack: Ack, revive_queue: int, revive_time_ms: int, *, batch: bool) -> Appended | None:
        """Write an acknowledgement unless it met its checkpoint; None if there is nothing to wait for."""
        if revive_queue not in self._revive_log or self._buffer.acknowledge(ack):
            return None
        try:
            return self._revive_log.put_ack(ack, revive_queue, revive_time_ms, batch=batch)
        except RequestRefused:
            return None  # the timer does not take such a time: no pop gave this receipt

    def _answer(self, call: Call, reply: Header, placed: Appended | None) -> Later:
        self._answer_all([call], reply, placed)
        return LATER

    def _answer_all(self, calls: list[Call], reply: Header, placed: Appended | None) -> None:
        """Answer when what was written is safe; now, if nothing was."""

        def settle(fault: BaseException | None) -> None:
            for call in calls:
                if fault is None:
                    call.reply(reply)
                else:
                    call.refuse(fault if isinstance(fault, Exception) else StoreNotWritable(str(fault)))

        if placed is None:
            settle(None)
        else:
            self._durability.when_safe(placed.physical_offset + placed.size, settle)


def _revive_time(receipt: Receipt) -> int:
    return receipt.pop_time_ms + receipt.invisible_time_ms
