"""Pulling from one queue: one request at a time, which the broker holds until there are messages.

The loop rests while the consumer is suspended, while the process queue has no room, and, in orderly consumption, while
the lock is not ours. An answer counts only if the queue still wants what was asked for; so a reset in between needs no
lock. The next pull goes where the broker suggests.

No pull carries an offset to be kept, as Java's do: brokers take pulls and commits in different threads, so an old pull
could undo the last commit, and the next member would begin too early.

Mirrors: DefaultMQPushConsumerImpl.pullMessage, PullAPIWrapper.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from cometmq.client.instance import ClientInstance
from cometmq.client.listeners import Subscription
from cometmq.client.process_queue import ProcessQueue
from cometmq.client.pulled import messages_of
from cometmq.errors import CometError, PeerTimeout
from cometmq.model.names import RETRY_PREFIX
from cometmq.model.route import MASTER_ID
from cometmq.model.sysflag import PullFlag
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.requests.consume import PullMessage, PullMessageReply

log = logging.getLogger("cometmq.client")

HOLD_MS: Final = 15_000
TIMEOUT_MS: Final = 30_000
PAUSE_AFTER_FAULT_S: Final = 1.0
PAUSE_WHEN_BUSY_S: Final = 0.05

_FOUND: Final = int(ResponseCode.SUCCESS)
_AT_ONCE: Final = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
_NOTHING: Final = (int(ResponseCode.PULL_NOT_FOUND), _AT_ONCE)
_MOVED: Final = int(ResponseCode.PULL_OFFSET_MOVED)
_BUSY: Final = (int(ResponseCode.SYSTEM_BUSY), int(ResponseCode.FLOW_CONTROL))
_UNKNOWN: Final = (int(ResponseCode.SUBSCRIPTION_NOT_EXIST), int(ResponseCode.SUBSCRIPTION_NOT_LATEST))


@dataclass(frozen=True, slots=True)
class PullSettings:
    """What all loops of a consumer have in common."""

    group: str
    batch: int = 32


class PullLoop:
    """Fills one process queue. `may_pull` waits for leave to pull; `deliver` is told of new messages."""

    def __init__(
        self,
        instance: ClientInstance,
        settings: PullSettings,
        queue: ProcessQueue,
        subscription: Callable[[], Subscription | None],
        may_pull: Callable[[ProcessQueue], Awaitable[None]],
        deliver: Callable[[ProcessQueue], None],
        moved: Callable[[ProcessQueue], Awaitable[None]],
    ) -> None:
        self._instance = instance
        self._settings = settings
        self._queue = queue
        self._subscription = subscription
        self._may_pull = may_pull
        self._deliver = deliver
        self._moved = moved
        self._broker_id = MASTER_ID
        self._retry_topic = RETRY_PREFIX + settings.group
        self._room: asyncio.Future[None] | None = None
        queue.on_room = self._has_room

    async def run(self) -> None:
        """Pull until the queue is dropped, or for ever."""
        queue = self._queue
        while not queue.is_dropped:
            await self._may_pull(queue)
            await self._wait_for_room()
            subscription = self._subscription()
            if subscription is None or queue.is_dropped:
                return
            try:
                await self._pull(subscription)
            except CometError as fault:
                self._broker_id = MASTER_ID
                if not isinstance(fault, PeerTimeout):
                    log.info("pulling from %s failed, trying again: %s", _text(queue), fault)
                await asyncio.sleep(PAUSE_AFTER_FAULT_S)

    async def _wait_for_room(self) -> None:
        while not self._queue.has_room:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    def _has_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    async def _pull(self, subscription: Subscription) -> None:
        queue = self._queue
        asked, broker_id = queue.next_offset, self._broker_id
        queue.last_pulled_s = asyncio.get_running_loop().time()
        answer = await self._instance.exchange(
            str(queue.queue.broker_name),
            self._request(subscription),
            broker_id=broker_id,
            or_any=True,
            timeout_ms=TIMEOUT_MS,
        )
        if queue.next_offset != asked or queue.is_dropped:
            return
        await self._take(answer, subscription, broker_id)

    def _request(self, subscription: Subscription) -> PullMessage:
        queue, data = self._queue, subscription.data
        flag = int(PullFlag.SUSPEND)
        expression = None
        if data.is_tag:  # cheap to read each time; SQL the broker compiles once, from the heartbeat
            flag |= PullFlag.SUBSCRIPTION
            expression = data.sub_string
        return PullMessage(
            self._settings.group,
            str(queue.queue.topic),
            queue.queue.queue_id,
            queue.next_offset,
            self._settings.batch,
            int(flag),
            0,
            HOLD_MS,
            data.sub_version,
            expression,
            data.expression_type,
        )

    async def _take(self, answer: Command, subscription: Subscription, broker_id: int) -> None:
        queue, code = self._queue, answer.code
        if code == _FOUND:
            reply = PullMessageReply.read(answer.ext)
            self._broker_id = reply.suggest_which_broker_id
            messages = messages_of(answer.body, str(queue.queue.broker_name), self._retry_topic)
            if subscription.data.tags_set:
                messages = list(filter(subscription.wants, messages))
            if queue.put(messages, reply.next_begin_offset):
                self._deliver(queue)
        elif code in _NOTHING:
            reply = PullMessageReply.read(answer.ext)
            self._broker_id = reply.suggest_which_broker_id
            before = queue.next_offset
            queue.put((), reply.next_begin_offset)
            if code == _AT_ONCE and queue.next_offset == before:
                await asyncio.sleep(PAUSE_WHEN_BUSY_S)  # nothing has moved: a replica that is behind
        elif code == _MOVED:
            reply = PullMessageReply.read(answer.ext)
            if broker_id != MASTER_ID:
                self._broker_id = MASTER_ID  # a slave that is behind; only the master knows what there is
                return
            log.warning("%s has no offset %d; going on at %d", _text(queue), queue.next_offset, reply.next_begin_offset)
            queue.reset(reply.next_begin_offset)
            await self._moved(queue)
        else:
            await self._refused(answer)

    async def _refused(self, answer: Command) -> None:
        self._broker_id = MASTER_ID
        if answer.code in _BUSY:
            await asyncio.sleep(PAUSE_WHEN_BUSY_S)
            return
        if answer.code in _UNKNOWN:
            self._instance.heartbeat_soon()
        level = logging.INFO if str(self._queue.queue.topic).startswith(RETRY_PREFIX) else logging.WARNING
        log.log(level, "%s refused a pull with code %d: %s", _text(self._queue), answer.code, answer.remark)
        await asyncio.sleep(PAUSE_AFTER_FAULT_S)


def _text(queue: ProcessQueue) -> str:
    return f"{queue.queue.topic} {queue.queue.broker_name}:{queue.queue.queue_id}"
