"""Calling a waiting message back, and what the timer tells of itself.

A recall is a message of its own: it waits in the same slot, and names the one that is not to be delivered. It is
taken until the slot begins, and forgotten with it.

Mirrors: RecallMessageProcessor, AdminBrokerProcessor (getTimerCheckPoint, getTimerMetrics).
"""

from __future__ import annotations

from typing import Final

import orjson

from cometmq.broker.config import BrokerConfig
from cometmq.broker.durability import Durability
from cometmq.broker.inner_messages import InnerMessage, InnerMessages
from cometmq.broker.role import SLAVE
from cometmq.broker.timer.delivery import delete_key
from cometmq.broker.timer.metrics import TimerMetrics
from cometmq.broker.timer.service import TimerService
from cometmq.broker.topics import Topics
from cometmq.clock import Clock
from cometmq.errors import ProtocolError, RequestRefused
from cometmq.model import properties
from cometmq.model.sysflag import Perm
from cometmq.net.routes import LATER, Call, Later, handles
from cometmq.store.config import StoreConfig
from cometmq.wire.recall_handle import RecallHandle
from cometmq.wire.requests.timer import GetTimerCheckPoint, GetTimerMetrics, RecallMessage, RecallMessageReply

_RECALL_TAG: Final = "_RECALL_TAG_"
_BODY: Final = b"0"


class RecallHandlers:
    """Serves producers who changed their mind."""

    def __init__(
        self,
        config: BrokerConfig,
        store_config: StoreConfig,
        topics: Topics,
        messages: InnerMessages,
        durability: Durability,
        clock: Clock,
    ) -> None:
        self._config = config
        self._topics = topics
        self._messages = messages
        self._durability = durability
        self._clock = clock
        self._delay_ms_max = store_config.timer_max_delay_sec * 1000
        self._keys_with_topic = store_config.append_topic_for_timer_delete_key
        self._fields = {properties.MSG_REGION: config.region_id}

    @handles(RecallMessage)
    def recall(self, request: RecallMessage, call: Call) -> Later:
        try:
            message = self._marker(request, self._checked(request), call)
        except RequestRefused as refused:
            refused.fields = self._fields
            raise
        try:
            placed = self._messages.put(message)
        except RequestRefused as refused:
            why = f"recall failed, execute error: {refused}"
            raise RequestRefused("SYSTEM_ERROR", why, self._fields) from None
        reply = RecallMessageReply(message.properties[properties.UNIQ_KEY])

        def settle(fault: BaseException | None) -> None:
            if fault is None:
                call.reply(reply, ext=self._fields)
                call.channel.flush()
            else:
                call.refuse(RequestRefused("SYSTEM_ERROR", f"recall failed, execute error: {fault}", self._fields))

        self._durability.when_safe(placed.physical_offset + placed.size, settle)
        return LATER

    def _checked(self, request: RecallMessage) -> RecallHandle:
        config = self._config
        if not config.recall_message_enable:
            raise RequestRefused("NO_PERMISSION", "recall failed, operation is forbidden")
        if config.broker_role == SLAVE:
            raise RequestRefused("SLAVE_NOT_AVAILABLE", "recall failed, broker service not available")
        if not config.broker_permission & Perm.WRITE and not config.allow_recall_when_broker_not_writeable:
            raise RequestRefused("SERVICE_NOT_AVAILABLE", "recall failed, broker service not available")
        if request.topic is None:
            raise ProtocolError("the recall names no topic")
        if self._topics.get(request.topic) is None:
            raise RequestRefused("TOPIC_NOT_EXIST", f"recall failed, the topic[{request.topic}] not exist")
        handle = RecallHandle.decode(request.recall_handle)
        if handle.topic != request.topic:
            raise RequestRefused("ILLEGAL_OPERATION", "recall failed, topic not match")
        if handle.broker_name != config.broker_name:
            raise RequestRefused("ILLEGAL_OPERATION", "recall failed, broker service not available")
        if not 0 < handle.deliver_ms - self._clock.now_ms() < self._delay_ms_max:
            raise RequestRefused("ILLEGAL_OPERATION", "recall failed, timestamp invalid")
        return handle

    def _marker(self, request: RecallMessage, handle: RecallHandle, call: Call) -> InnerMessage:
        now_ms = self._clock.now_ms()
        found = {
            properties.TAGS: _RECALL_TAG,
            properties.TIMER_DEL_UNIQKEY: delete_key(handle.topic, handle.uniq_key, with_topic=self._keys_with_topic),
            properties.UNIQ_KEY: handle.uniq_key,
            properties.TIMER_DELIVER_MS: str(handle.deliver_ms),
            properties.BORN_TIMESTAMP: str(now_ms),
        }
        if request.producer_group is not None:
            found[properties.PRODUCER_GROUP] = request.producer_group
        return InnerMessage(handle.topic, 0, _BODY, found, born_time_ms=now_ms, born_host=call.channel.peer_host)


class TimerHandlers:
    """Serves operators and replicas."""

    def __init__(self, service: TimerService | None, metrics: TimerMetrics | None) -> None:
        self._service = service
        self._metrics = metrics

    @handles(GetTimerCheckPoint)
    def checkpoint(self, request: GetTimerCheckPoint, call: Call) -> Later:
        if self._service is None:
            raise RequestRefused("SYSTEM_ERROR", "The checkpoint is null: timerWheelEnable is false")
        call.reply(body=self._service.checkpoint_bytes(whole=bool(request.with_log_offset)))
        return LATER

    @handles(GetTimerMetrics)
    def metrics(self, request: GetTimerMetrics, call: Call) -> Later:
        if self._metrics is None:
            raise RequestRefused("SYSTEM_ERROR", "The timer message store is null: timerWheelEnable is false")
        call.reply(body=orjson.dumps(self._metrics.to_json()))
        return LATER
