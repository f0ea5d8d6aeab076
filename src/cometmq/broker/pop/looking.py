"""Looking without taking: peek, notification (is there anything for this group?) and how many wait.

Mirrors: PeekMessageProcessor, NotificationProcessor, PollingInfoProcessor.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import Executor
from typing import Final

from cometmq.broker.config import BrokerConfig
from cometmq.broker.loading import load
from cometmq.broker.order_info import OrderInfos
from cometmq.broker.pop.checks import Checks, refusing_with, wanted
from cometmq.broker.pop.long_polling import Parked, Polling, PollingKey, PopLongPolling
from cometmq.broker.pop.places import Places
from cometmq.broker.pop.retry_topic import pop_retry_topic
from cometmq.broker.topics import Topics
from cometmq.clock import Clock
from cometmq.errors import RequestRefused
from cometmq.model.subscription import is_tag_type
from cometmq.net.routes import DONE, LATER, Call, Later, handles
from cometmq.store.engine import Store
from cometmq.store.reader import Matches, ReadResult, ReadStatus, RecordFilter
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Body
from cometmq.wire.requests.pop import (
    Notification,
    NotificationReply,
    PeekMessage,
    PollingInfo,
    PollingInfoReply,
    PopMessageReply,
    PopRollback,
)
from cometmq.wire.schema import Header

_MISPLACED: Final = (ReadStatus.OFFSET_TOO_SMALL, ReadStatus.OFFSET_OVERFLOW_BADLY)


class Looking:
    """Answers who only looks."""

    def __init__(
        self,
        config: BrokerConfig,
        checks: Checks,
        topics: Topics,
        places: Places,
        order_infos: OrderInfos,
        store: Store,
        clock: Clock,
        pops: PopLongPolling,
        readers: Executor | None = None,
    ) -> None:
        self._config = config
        self._checks = checks
        self._topics = topics
        self._places = places
        self._order_infos = order_infos
        self._store = store
        self._clock = clock
        self._pops = pops
        self._readers = readers
        self.long_polling = PopLongPolling(
            self._wake, clock, config.max_pop_polling_size, config.pop_polling_size, newest_first=True
        )

    # --- peek

    @handles(PeekMessage)
    async def peek(self, request: PeekMessage, call: Call) -> Later:
        self._check_peek(request, call)
        founds: list[ReadResult] = []
        rest_count = count = 0
        for topic, queue_id in self._peeked_queues(request, founds):
            offset = self._places.seen_offset(topic, request.consumer_group, queue_id)
            rest_count += self._store.max_offset(topic, queue_id) - offset
            wanted = request.max_msg_nums - count
            if wanted <= 0:
                continue
            found = self._store.read(topic, queue_id, offset, wanted)
            if found.status in _MISPLACED:
                found = self._store.read(topic, queue_id, found.next_offset, wanted)
            founds.append(found)
            count += len(found.ranges)
        header = PopMessageReply(pop_time=0, invisible_time=0, revive_qid=0, rest_num=rest_count)
        if not count:
            call.reply(header, code=ResponseCode.PULL_NOT_FOUND, remark=ReadStatus.NO_MESSAGE_IN_QUEUE.name)
            return LATER
        pieces: list[Body] = []
        for found in founds:
            cold = found.cold
            pieces += await load(self._store, found, self._readers) if cold else self._store.slices(found.ranges)
        call.reply_parts(header, pieces, sum(map(len, pieces)), remark=ReadStatus.FOUND.name)
        return LATER

    @refusing_with(PopMessageReply(0, 0, 0, 0))
    def _check_peek(self, request: PeekMessage, call: Call) -> None:
        self._checks.broker("peeking")
        self._checks.topic_and_group(request.topic, request.queue_id, request.consumer_group, call)
        if request.max_msg_nums < 0:
            raise RequestRefused("SYSTEM_ERROR", f"maxMsgNums cannot be {request.max_msg_nums}")

    def _peeked_queues(self, request: PeekMessage, founds: list[ReadResult]) -> Iterator[tuple[str, int]]:
        """The queues to look into; the retry topic comes first or, if there is room left, last."""
        chance = random.randrange(100)
        retry_topic = pop_retry_topic(request.topic, request.consumer_group, v2=self._config.enable_retry_topic_v2)
        retry_first = chance % 5 == 0
        if retry_first:
            yield from self._queues(retry_topic, chance)
        if request.queue_id < 0:
            yield from self._queues(request.topic, chance)
        else:
            yield request.topic, request.queue_id
        if not retry_first and sum(len(found.ranges) for found in founds) < request.max_msg_nums:
            yield from self._queues(retry_topic, chance)

    def _queues(self, name: str, shift: int) -> Iterator[tuple[str, int]]:
        topic = self._topics.get(name)
        if topic is not None:
            for index in range(topic.read_queue_nums):
                yield name, (shift + index) % topic.read_queue_nums

    # --- notification

    @handles(Notification)
    def notification(self, request: Notification, call: Call) -> Later:
        if request.born_time == 0:
            request.born_time = self._clock.now_ms()
        self._notify(request, call)
        return LATER

    def _wake(self, parked: Parked) -> None:
        self._notify(parked.request, parked.call)

    @refusing_with(NotificationReply())
    def _notify(self, request: Notification, call: Call) -> None:
        self._checks.broker("peeking")
        self._checks.topic_and_group(request.topic, request.queue_id, request.consumer_group, call)
        matches = None
        if self._config.use_message_filter_for_notification and request.exp and request.exp_type:
            matches = wanted(request.topic, request.exp, request.exp_type)
            if not is_tag_type(request.exp_type):
                matches = None
        if self._has_message(request, matches):
            call.reply(NotificationReply(has_msg=True))
            return
        key = request.topic, request.consumer_group, request.queue_id
        polling = self.long_polling.park(key, request.born_time, request.poll_time, call, request)
        if polling is not Polling.PARKED:
            call.reply(NotificationReply(polling_full=polling is Polling.FULL))

    def _has_message(self, request: Notification, matches: Matches | None) -> bool:
        shift = random.randrange(100)
        own = self._queues(request.topic, shift) if request.queue_id < 0 else [(request.topic, request.queue_id)]
        if any(self._queue_has_message(request, topic, queue_id, matches) for topic, queue_id in own):
            return True
        config, group = self._config, request.consumer_group
        names = [pop_retry_topic(request.topic, group, v2=config.enable_retry_topic_v2)]
        if config.enable_retry_topic_v2 and config.retrieve_message_from_pop_retry_topic_v1:
            names.append(pop_retry_topic(request.topic, group))
        return any(
            self._queue_has_message(request, topic, queue_id, None)
            for name in names
            for topic, queue_id in self._queues(name, shift)
        )

    def _queue_has_message(self, request: Notification, topic: str, queue_id: int, matches: Matches | None) -> bool:
        group = request.consumer_group
        if request.order and self._order_infos.blocked(request.topic, group, queue_id, 0, request.attempt_id):
            return False
        offset = self._places.seen_offset(topic, group, queue_id)
        rest_count = self._store.max_offset(topic, queue_id) - offset
        if matches is None or not 0 < rest_count < self._config.max_message_filter_num_for_notification:
            return rest_count > 0
        if isinstance(matches, RecordFilter) and self._store.read(topic, queue_id, offset, 1).cold:
            return True  # a hint: who pops asks the disk
        found = self._store.read(topic, queue_id, offset, 1, None, matches)
        return found.status is ReadStatus.FOUND

    # --- the rest

    @handles(PollingInfo)
    @refusing_with(PollingInfoReply(0))
    def polling_info(self, request: PollingInfo, call: Call) -> PollingInfoReply:
        self._checks.broker("peeking")
        self._checks.topic_and_group(request.topic, request.queue_id, request.consumer_group, call)
        key: PollingKey = request.topic, request.consumer_group, request.queue_id
        return PollingInfoReply(self._pops.count(key))

    @handles(PopRollback)
    def rollback(self, request: PopRollback, call: Call) -> Header:
        return DONE

    def close(self) -> None:
        self.long_polling.close()
