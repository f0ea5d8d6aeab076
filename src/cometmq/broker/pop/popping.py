"""Pop: messages of one or all queues of a topic, and of its retry topic, each to one consumer of the group for a time.

Everything about a pop is decided by the ConsumeQueues alone, in one step without an await, so that no queue needs a
lock: which messages, their checkpoint, and where the next pop goes on. `answers.py` then sends them.

Mirrors: PopMessageProcessor.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import Executor
from struct import Struct
from typing import Final

from cometmq.broker.config import BrokerConfig
from cometmq.broker.offsets import Offsets
from cometmq.broker.order_info import OrderInfos
from cometmq.broker.pop import handle
from cometmq.broker.pop.answers import Part, Pop, PopAnswers, header_of
from cometmq.broker.pop.buffer import Books
from cometmq.broker.pop.checkpoint import CheckPoint
from cometmq.broker.pop.checks import Checks, refusing_with, wanted
from cometmq.broker.pop.inflight import Inflight
from cometmq.broker.pop.long_polling import Parked, Polling, PopLongPolling
from cometmq.broker.pop.places import Places
from cometmq.broker.pop.retry_topic import ORDER_REVIVE_QUEUE, pop_retry_topic
from cometmq.broker.pop.warming import Warm, Warming
from cometmq.broker.statistics import Reads
from cometmq.broker.topics import Topics
from cometmq.clock import Clock
from cometmq.errors import RequestRefused
from cometmq.net.routes import LATER, Call, Later, handles
from cometmq.store.engine import Store
from cometmq.store.reader import ReadResult, ReadStatus, RecordFilter
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.pop import PopMessage, PopMessageReply

COUNT_MAX: Final = 32
LATE_MS_MAX: Final = 500

_MISPLACED: Final = (ReadStatus.OFFSET_TOO_SMALL, ReadStatus.OFFSET_OVERFLOW_BADLY, ReadStatus.OFFSET_FOUND_NULL)
_NOTHING_HERE: Final = (
    ReadStatus.NO_MATCHED_MESSAGE,
    ReadStatus.OFFSET_FOUND_NULL,
    ReadStatus.MESSAGE_WAS_REMOVING,
    ReadStatus.NO_MATCHED_LOGIC_QUEUE,
)
_POLLING_FULL: Final = int(ResponseCode.POLLING_FULL)
_POLLING_TIMEOUT: Final = int(ResponseCode.POLLING_TIMEOUT)
_QUEUE_OFFSET: Final = Struct(">q")


class Popping:
    """Serves pops and lets those wait that find nothing."""

    def __init__(
        self,
        config: BrokerConfig,
        checks: Checks,
        topics: Topics,
        offsets: Offsets,
        places: Places,
        buffer: Books,
        inflight: Inflight,
        order_infos: OrderInfos,
        store: Store,
        clock: Clock,
        reads: Reads,
        readers: Executor | None = None,
    ) -> None:
        self._config = config
        self._checks = checks
        self._topics = topics
        self._offsets = offsets
        self._places = places
        self._buffer = buffer
        self._inflight = inflight
        self._order_infos = order_infos
        self._store = store
        self._clock = clock
        self._reads = reads
        self._answers = PopAnswers(config, store, readers)
        self._warming = Warming(store, readers)
        self._pops = 0
        self.long_polling = PopLongPolling(self._wake, clock, config.max_pop_polling_size, config.pop_polling_size)

    @handles(PopMessage)
    def pop(self, request: PopMessage, call: Call) -> Later:
        if request.born_time == 0:
            request.born_time = self._clock.now_ms()
        self._serve(request, call)
        return LATER

    def _wake(self, parked: Parked) -> None:
        self._serve(parked.request, parked.call)

    def _serve(self, request: PopMessage, call: Call) -> None:
        pop = self._begin(request, call)
        if isinstance(pop.matches, RecordFilter):
            self._warming.warm(self._starts(pop), lambda warm: self._decide_warm(pop, call, warm), call.refuse)
        else:
            self._decide(pop, call)

    def _decide_warm(self, pop: Pop, call: Call, warm: Warm) -> None:
        if warm:  # the disk took its time
            if not call.channel.is_open:
                return
            pop.warm, pop.pop_time_ms = warm, self._clock.now_ms()
        self._decide(pop, call)

    def _decide(self, pop: Pop, call: Call) -> None:
        """Hand out what there is; with nothing, let the pop wait."""
        request = pop.request
        self._take(pop)
        key = request.topic, request.consumer_group, request.queue_id
        if pop.count:
            if pop.rest_count > 0:
                self.long_polling.notify_soon(key)
            self._answers.send(pop, call)
            return
        polling = self.long_polling.park(key, request.born_time, request.poll_time, call, request)
        if polling is Polling.PARKED:
            if pop.rest_count > 0:
                self.long_polling.notify_soon(key)
            return
        code = _POLLING_FULL if polling is Polling.FULL else _POLLING_TIMEOUT
        call.reply(header_of(pop), code=code, remark=ReadStatus.NO_MESSAGE_IN_QUEUE.name)

    @refusing_with(PopMessageReply(0, 0, 0, 0))
    def _begin(self, request: PopMessage, call: Call) -> Pop:
        config, now_ms = self._config, self._clock.now_ms()
        if now_ms - request.born_time - request.poll_time > LATE_MS_MAX:
            raise RequestRefused("POLLING_TIMEOUT", f"the broker[{config.broker_ip1}] pop message is timeout too much")
        self._checks.broker("pop")
        self._buffer.check()
        if request.max_msg_nums > COUNT_MAX:
            raise RequestRefused(
                "INVALID_PARAMETER", f"the broker[{config.broker_ip1}] pop message's num is greater than {COUNT_MAX}"
            )
        if not config.timer_wheel_enable:
            raise RequestRefused(
                "SYSTEM_ERROR",
                f"the broker[{config.broker_ip1}] pop message is forbidden because timerWheelEnable is false",
            )
        checked = self._checks.topic_and_group(request.topic, request.queue_id, request.consumer_group, call)
        matches = wanted(request.topic, request.exp, request.exp_type)
        if request.max_msg_nums < 0:
            raise RequestRefused("SYSTEM_ERROR", f"maxMsgNums cannot be {request.max_msg_nums}")
        revive_queue = ORDER_REVIVE_QUEUE if request.order else self._pops % config.revive_queue_num
        if not request.order:
            self._pops += 1
        return Pop(request, checked, matches, now_ms, revive_queue)

    def _starts(self, pop: Pop) -> Iterator[tuple[str, int, int]]:
        """Where the queues that the pop may take from go on."""
        request, group = pop.request, pop.request.consumer_group
        names = [request.topic]
        if not request.order:
            names += [pop_retry_topic(request.topic, group, v2=v2) for v2 in (False, True)]
        for name in names:
            topic = self._topics.get(name)
            for queue_id in range(topic.read_queue_nums if topic is not None else 0):
                if name != request.topic or request.queue_id < 0 or request.queue_id == queue_id:
                    yield name, queue_id, self._places.seen_offset(name, group, queue_id)

    # --- taking

    def _take(self, pop: Pop) -> None:
        """From the retry topic and the queues that were asked for, in an order that leaves none behind."""
        config, request = self._config, pop.request
        chance = random.randrange(100)
        by_priority = self._is_by_priority(pop) and chance < _priority_factor(pop)
        retry_chance = (
            config.pop_from_retry_probability_for_priority if by_priority else config.pop_from_retry_probability
        )
        retry_first = chance < retry_chance
        v1_too = config.enable_retry_topic_v2 and config.retrieve_message_from_pop_retry_topic_v1
        use_v2 = config.enable_retry_topic_v2 and not (v1_too and chance % 2 == 0)
        retry_topic = pop_retry_topic(request.topic, request.consumer_group, v2=use_v2)
        shift = 0 if by_priority else chance
        if retry_first and not request.order:
            self._take_topic(pop, retry_topic, shift, is_retry=True)
        if request.queue_id < 0:
            self._take_topic(pop, request.topic, shift, is_retry=False)
        else:
            self._take_queue(pop, request.topic, request.queue_id, is_retry=False)
        if not retry_first and not request.order and pop.count < request.max_msg_nums:
            self._take_topic(pop, retry_topic, shift, is_retry=True)

    @staticmethod
    def _is_by_priority(pop: Pop) -> bool:
        return not pop.request.order and pop.checked.topic.attributes.get("message.type") == "PRIORITY"

    def _take_topic(self, pop: Pop, name: str, shift: int, *, is_retry: bool) -> None:
        topic = self._topics.get(name)
        if topic is None:
            return
        nums = topic.read_queue_nums
        for index in range(nums):
            first = nums - 1 - index if self._config.priority_order_asc else index
            self._take_queue(pop, name, (first + shift) % nums, is_retry=is_retry)

    def _take_queue(self, pop: Pop, topic: str, queue_id: int, *, is_retry: bool) -> None:
        request, store = pop.request, self._store
        group = request.consumer_group
        if self._inflight.is_full(topic, group, queue_id):
            pop.held_back_count += store.max_offset(topic, queue_id) - self._places.seen_offset(topic, group, queue_id)
            return
        offset = self._places.next_offset(topic, group, queue_id, request.init_mode)
        if request.order and self._order_infos.blocked(
            topic, group, queue_id, request.invisible_time, request.attempt_id
        ):
            return
        room = request.max_msg_nums - pop.count
        if room <= 0:
            pop.rest_count += store.max_offset(topic, queue_id) - offset
            return
        again = None if request.order else self._buffer.overdue(topic, group, queue_id)
        if again is None and self._buffer.is_full(topic, group, queue_id):
            pop.held_back_count += store.max_offset(topic, queue_id) - offset
            return
        if again is not None:
            offset, room = again, 1
        found = self._read(pop, topic, queue_id, offset, room)
        if again is not None and found is not None and list(found.offsets[:1]) != [again]:
            self._buffer.drop(topic, group, queue_id, [again])  # it is gone, or not wanted any more
            pop.rest_count += 1
            return
        if found is not None and found.status in _MISPLACED:
            offset = found.next_offset
            self._offsets.commit(group, topic, queue_id, offset)
            found = self._read(pop, topic, queue_id, offset, room)
        if found is None:
            pop.rest_count += store.max_offset(topic, queue_id) - offset
            return
        if found.ranges:
            self._hand_out(pop, topic, queue_id, offset, found, is_retry=is_retry)
        elif found.status in _NOTHING_HERE:
            if request.order:
                self._offsets.commit(group, topic, queue_id, found.next_offset)
            else:
                self._buffer.skip(topic, group, queue_id, found.next_offset)
        pop.rest_count += found.max_offset - max(found.next_offset, self._buffer.latest(topic, group, queue_id))

    def _read(self, pop: Pop, topic: str, queue_id: int, offset: int, room: int) -> ReadResult | None:
        """What is wanted of a queue; None if that would have to be asked of a disk first."""
        matches = pop.matches
        if isinstance(matches, RecordFilter):
            matches = self._warming.within(pop.warm, (topic, queue_id), offset, matches)
            if matches is None:
                return None
        found = self._store.read(topic, queue_id, offset, room, None, matches)
        self._reads.note(len(found.ranges))
        return found

    def _hand_out(self, pop: Pop, topic: str, queue_id: int, offset: int, found: ReadResult, *, is_retry: bool) -> None:
        request = pop.request
        group = request.consumer_group
        count = len(found.ranges)
        offsets = list(found.offsets)
        if request.order:
            pop.order_counts.append(
                self._order_infos.update(
                    topic, group, queue_id, offsets, pop.pop_time_ms, request.invisible_time, request.attempt_id
                )
            )
            self._offsets.commit(group, topic, queue_id, offset)
        else:
            point = CheckPoint(
                topic,
                group,
                queue_id,
                offset,
                pop.pop_time_ms,
                request.invisible_time,
                self._config.broker_name,
                [one - offset for one in offsets],
            )
            self._buffer.add(point, pop.revive_queue, found.next_offset)
            self._inflight.handed_out(topic, group, queue_id, count)
        pop.parts.append(Part(topic, queue_id, offset, found, is_retry))
        pop.start_offsets.append(handle.start_offset_info(topic, queue_id, offset))
        pop.msg_offsets.append(handle.msg_offset_info(topic, queue_id, offsets))
        pop.count += count
        pop.is_cold = pop.is_cold or found.cold

    def close(self) -> None:
        self._warming.close()
        self.long_polling.close()


def _priority_factor(pop: Pop) -> int:
    text = pop.checked.group.attributes.get("priority.factor", "")
    return int(text) if text.removeprefix("-").isdecimal() else 100
