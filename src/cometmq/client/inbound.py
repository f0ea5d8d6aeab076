"""What brokers ask of a client: 39, 40, 220, 221, 307, 309 and 326, each brought to who is registered for it.

A request for a group that does not live here is answered as Java's client does, or left alone if it is one-way.

Mirrors: ClientRemotingProcessor.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from cometmq.client.members import ConsumerMember, ProducerMember
from cometmq.client.message import ReceivedMessage
from cometmq.errors import RequestRefused
from cometmq.model import properties
from cometmq.net.routes import DONE, LATER, Call, Later, handles
from cometmq.wire import fastjson
from cometmq.wire.bodies.offsets import decode_queue_offsets, encode_queue_status
from cometmq.wire.bodies.running_info import encode_running_info
from cometmq.wire.record import Record, body_crc, decode_record, pack_host
from cometmq.wire.requests.clients import ConsumeMessageDirectly, GetConsumerRunningInfo, GetConsumerStatus
from cometmq.wire.requests.consume import ResetOffsetInClient
from cometmq.wire.requests.members import NotifyConsumerIdsChanged
from cometmq.wire.requests.send import PushReplyMessage
from cometmq.wire.requests.transaction import CheckTransactionState
from cometmq.wire.schema import Header

log = logging.getLogger("cometmq.client")


class Inbound:
    """Hands requests of brokers on."""

    def __init__(
        self,
        consumers: Mapping[str, ConsumerMember],
        producers: Mapping[str, list[ProducerMember]],
        replies: dict[str, asyncio.Future[ReceivedMessage]],
        name_of: Callable[[str], str | None],
    ) -> None:
        self._consumers = consumers
        self._producers = producers
        self._replies = replies
        self._name_of = name_of

    @handles(CheckTransactionState)
    async def check_transaction(self, request: CheckTransactionState, call: Call) -> None:
        broker = call.channel.peer
        name = request.broker_name or self._name_of(broker) or ""
        message = ReceivedMessage(decode_record(call.body), name)
        group = message.properties.get(properties.PRODUCER_GROUP, "")
        for producer in self._producers.get(group, ()):
            if producer.checks_transactions:
                await producer.check_transaction(request, message, call.channel)
                return
        log.warning(
            "%s asks how transaction %s ended, but no producer of %s here can tell", broker, request.msg_id, group
        )

    @handles(NotifyConsumerIdsChanged)
    def members_changed(self, request: NotifyConsumerIdsChanged, call: Call) -> Header:
        consumer = self._consumers.get(request.consumer_group)
        if consumer is not None:
            consumer.members_changed()
        return DONE

    @handles(ResetOffsetInClient)
    async def reset_offsets(self, request: ResetOffsetInClient, call: Call) -> Header:
        consumer = self._consumers.get(request.group)
        if consumer is not None:
            await consumer.reset_offsets(request.topic, decode_queue_offsets(call.body))
        return DONE

    @handles(GetConsumerStatus)
    def status(self, request: GetConsumerStatus, call: Call) -> Later:
        consumer = self._consumers.get(request.group)
        offsets = consumer.consumed_offsets(request.topic) if consumer is not None else {}
        call.reply(body=encode_queue_status(offsets))
        return LATER

    @handles(GetConsumerRunningInfo)
    def running_info(self, request: GetConsumerRunningInfo, call: Call) -> Later:
        info: dict[str, Any] = self._consumer(request.consumer_group).running_info()
        if request.jstack_enable:
            info = {**info, "jstack": _stacks()}
        call.reply(body=encode_running_info(info))
        return LATER

    @handles(ConsumeMessageDirectly)
    async def consume_directly(self, request: ConsumeMessageDirectly, call: Call) -> None:
        consumer = self._consumer(request.consumer_group)
        name = request.broker_name or self._name_of(call.channel.peer) or ""
        result = await consumer.consume_directly(ReceivedMessage(decode_record(call.body), name))
        call.reply(body=fastjson.dumps(result))

    @handles(PushReplyMessage)
    def push_reply(self, request: PushReplyMessage, call: Call) -> Header:
        message = _reply_of(request, bytes(call.body))
        waiting = self._replies.get(message.properties.get(properties.CORRELATION_ID, ""))
        if waiting is None or waiting.done():
            log.info("a reply to a request that nobody waits for any more came from %s", request.born_host)
        else:
            waiting.set_result(message)
        return DONE

    def _consumer(self, group: str) -> ConsumerMember:
        found = self._consumers.get(group)
        if found is None:
            raise RequestRefused("SYSTEM_ERROR", f"The Consumer Group <{group}> not exist in this consumer")
        return found


def _reply_of(request: PushReplyMessage, body: bytes) -> ReceivedMessage:
    """A reply as a message: it comes in fields, not as a record."""
    record = Record(
        topic=request.topic,
        queue_id=request.queue_id,
        flag=request.flag,
        queue_offset=0,
        physical_offset=0,
        sys_flag=request.sys_flag,
        born_time_ms=request.born_timestamp,
        born_host=_host(request.born_host),
        store_time_ms=request.store_timestamp,
        store_host=_host(request.store_host),
        reconsume_times=request.reconsume_times or 0,
        prepared_offset=0,
        body=body,
        properties_text=request.properties or "",
        body_crc=body_crc(body),
        size=0,
    )
    return ReceivedMessage(record, "")


def _host(text: str) -> bytes:
    host, _, port = text.lstrip("/").rpartition(":")
    try:
        return pack_host(host.strip("[]"), int(port))
    except (OSError, ValueError, OverflowError):
        return bytes(8)


def _stacks() -> str:
    """What every thread does, for an operator who asks."""
    named = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f"{named.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    ]
    return "\n".join(parts)
