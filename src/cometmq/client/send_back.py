"""Giving a message back that could not be consumed: it comes again later, or becomes a dead letter.

The broker that has it makes the copy (36). If that one does not answer, the message is sent anew to the retry topic,
on any broker; the count of attempts travels in the header, and the broker that takes it decides between retry and
dead letter.

Mirrors: DefaultMQPushConsumerImpl.sendMessageBack, ConsumeMessageOrderlyService.sendMessageBack.
"""

from __future__ import annotations

import logging
import random
import time
from typing import Final

from cometmq.client.instance import ClientInstance
from cometmq.client.message import ReceivedMessage
from cometmq.errors import CometError
from cometmq.model import properties
from cometmq.model.names import AUTO_CREATE_TOPIC, RETRY_PREFIX
from cometmq.model.sysflag import MessageFlag
from cometmq.wire.requests.delay import ConsumerSendMsgBack
from cometmq.wire.requests.send import SendMessageV2

log = logging.getLogger("cometmq.client")

RECONSUME_TIMES_MAX: Final = 16  # of concurrent consumption, if the program says nothing
FOREVER: Final = 0x7FFF_FFFF  # of orderly consumption
INNER_PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"
_TIMEOUT_MS: Final = 5_000
_FIRST_LEVEL: Final = 3
_PACKED: Final = int(MessageFlag.COMPRESSED) | 0x700  # and with what
_NEW_TO_EACH: Final = ("TRAN_MSG", "RECONSUME_TIME", "MAX_RECONSUME_TIMES")


class SendBack:
    """Gives messages of one group back; True means that a broker has taken it."""

    def __init__(self, instance: ClientInstance, group: str, reconsume_times_max: int) -> None:
        self._instance = instance
        self._group = group
        self._retry_topic = RETRY_PREFIX + group
        self._times_max = reconsume_times_max

    async def later(self, message: ReceivedMessage, delay_level: int = 0) -> bool:
        """Let it come again; level 0 leaves the time to the broker, -1 makes it a dead letter at once."""
        request = ConsumerSendMsgBack(
            self._group,
            message.record.physical_offset,
            delay_level,
            message.message_id,
            message.topic,
            max_reconsume_times=self._times_max,
        )
        try:
            await self._instance.call(message.broker_name, request, timeout_ms=_TIMEOUT_MS)
        except CometError as fault:
            log.info("%r was not taken back, sending it anew: %s", message, fault)
            return await self.anew(message)
        return True

    async def anew(self, message: ReceivedMessage) -> bool:
        """Send it to the retry topic."""
        try:
            queues = await self._instance.writable_queues(self._retry_topic, new_queues=1)
        except CometError as fault:
            log.warning("%r could not be given back: %s", message, fault)
            return False
        one_of_each = {queue.broker_name: queue for queue in random.sample(queues, len(queues))}
        fault_text = "no broker"
        for queue in one_of_each.values():
            request = self._request(message, queue.queue_id)
            try:
                await self._instance.call(str(queue.broker_name), request, message.record.body, timeout_ms=_TIMEOUT_MS)
            except CometError as fault:
                fault_text = str(fault)
                continue
            return True
        log.warning("%r could not be given back: %s", message, fault_text)
        return False

    def _request(self, message: ReceivedMessage, queue_id: int) -> SendMessageV2:
        record = message.record
        carried = {name: value for name, value in message.properties.items() if name not in _NEW_TO_EACH}
        carried[properties.RETRY_TOPIC] = message.topic
        carried.setdefault(properties.ORIGIN_MESSAGE_ID, message.message_id)
        carried[properties.DELAY] = str(_FIRST_LEVEL + record.reconsume_times)
        return SendMessageV2(
            INNER_PRODUCER_GROUP,
            self._retry_topic,
            AUTO_CREATE_TOPIC,
            1,
            queue_id,
            record.sys_flag & _PACKED,
            int(time.time() * 1000),
            record.flag,
            properties.render(carried),
            record.reconsume_times + 1,
            False,
            self._times_max,
        )
