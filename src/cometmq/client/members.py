"""The contract between a `ClientInstance` and the producers and consumers that live on it.

A consumer, from start to end:

    instance = await ClientInstance.join(options, apart_from=group)   # never one where the group lives already
    await instance.route(topic)                                       # of each topic, also %RETRY%group: kept fresh
    await instance.add_consumer(self)                                 # the brokers know the subscriptions from here on
    queues = instance.readable_queues(topic)                          # all of them, as the name server tells
    ids = await instance.consumer_ids(topic, group)                   # all members (38); instance.client_id is ours
    answer = await instance.exchange(queue.broker_name, PullMessage(…), broker_id=…, timeout_ms=…)
    answer = await instance.call(queue.broker_name, UpdateConsumerOffset(…))     # raises PeerRefused
    task = instance.spawn(self._pull(queue), name)                    # ends with the instance, if not before
    await instance.remove_consumer(self)                              # unregisters from the brokers
    await instance.leave()                                            # the last one out closes everything

`exchange` returns whatever code the broker answers (a pull without messages is no error), `call` raises on all but
success. Both go to the master unless given `broker_id`; with `or_any` another replica does if that one is not there.
Methods of a member are called on the loop and must not block; what they raise is logged, never lost.

Mirrors: MQConsumerInner, MQProducerInner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from cometmq.client.message import ReceivedMessage
from cometmq.model.queue import MessageQueue
from cometmq.net.channel import Channel
from cometmq.wire.bodies.heartbeat import ConsumerData
from cometmq.wire.requests.transaction import CheckTransactionState


class ConsumerMember(Protocol):
    """A consumer of one group, as the instance sees it."""

    @property
    def group(self) -> str: ...

    def consumer_data(self) -> ConsumerData:
        """What the heartbeat says of it, with its subscriptions. After a change: `instance.heartbeat_soon()`."""

    def members_changed(self) -> None:
        """A broker says (40) that the group has other members, or a connection was lost: balance again soon."""

    def route_changed(self, topic: str) -> None:
        """The queues of a topic that was asked for are no longer those they were: balance again soon."""

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """An operator moves the group (220): go on from these offsets."""

    def consumed_offsets(self, topic: str) -> Mapping[MessageQueue, int]:
        """How far each queue is (221)."""

    def running_info(self) -> dict[str, Any]:
        """What an operator is shown (307): the fields of ConsumerRunningInfo that are known."""

    async def consume_directly(self, message: ReceivedMessage) -> dict[str, Any]:
        """An operator hands a message to the listener (309): the fields of ConsumeMessageDirectlyResult."""


class ProducerMember(Protocol):
    """A producer of one group, as the instance sees it."""

    @property
    def group(self) -> str: ...

    @property
    def checks_transactions(self) -> bool:
        """Whether it can tell how a transaction ended."""

    async def check_transaction(self, request: CheckTransactionState, message: ReceivedMessage, asker: Channel) -> None:
        """A broker asks how a transaction ended (39), on its connection `asker`."""
