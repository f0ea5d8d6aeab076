"""How consumption goes on, for operators: who consumes a topic, how far and how late, and what a queue's units hold.

Nothing is changed here. Mirrors: AdminBrokerProcessor.
"""

from __future__ import annotations

import time
from typing import Any, Final

from cometmq.broker.config import BrokerConfig
from cometmq.broker.filters import Filters
from cometmq.broker.members import Members
from cometmq.broker.offsets import Offsets
from cometmq.broker.topics import Topics
from cometmq.clock import Clock
from cometmq.errors import RequestRefused
from cometmq.model.queue import MessageQueue
from cometmq.net.routes import LATER, Call, Later, handles
from cometmq.store.engine import Store
from cometmq.wire import fastjson
from cometmq.wire.bodies.queues import queue_to_json
from cometmq.wire.requests.tracking import QueryConsumeQueue, QueryConsumeTimeSpan, QueryTopicConsumeByWho

UNITS_MAX: Final = 10_000  # of one answer: they are written on the event loop


class TrackingHandlers:
    """Answers those who look after consumers."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        topics: Topics,
        members: Members,
        offsets: Offsets,
        filters: Filters,
        store: Store,
    ) -> None:
        self._broker_name = config.broker_name
        self._clock = clock
        self._topics = topics
        self._members = members
        self._offsets = offsets
        self._filters = filters
        self._store = store

    @handles(QueryTopicConsumeByWho)
    def who(self, request: QueryTopicConsumeByWho, call: Call) -> Later:
        """The groups that subscribe to a topic or have committed anything of it."""
        groups = self._members.subscribers_of(request.topic) | self._offsets.groups_of(request.topic)
        call.reply(body=fastjson.dumps({"groupList": sorted(groups)}))
        return LATER

    @handles(QueryConsumeTimeSpan)
    def time_span(self, request: QueryConsumeTimeSpan, call: Call) -> Later:
        topic = self._topics.get(request.topic)
        if topic is None:
            raise RequestRefused("TOPIC_NOT_EXIST", f"topic[{request.topic}] not exist")
        spans = [
            self._span(request.group or "null", request.topic, queue_id) for queue_id in range(topic.write_queue_nums)
        ]
        call.reply(body=fastjson.dumps({"consumeTimeSpanSet": spans}))
        return LATER

    def _span(self, group: str, topic: str, queue_id: int) -> dict[str, Any]:
        """Store times: of the first, the last and the last consumed message; and how long the next one has waited.

        A group that has committed nothing waits for offset -1, whose time is -1, as in Java.
        """
        store, committed = self._store, self._offsets.query(group, topic, queue_id)
        offset, end = -1 if committed is None else committed, store.max_offset(topic, queue_id)
        earliest_ms = store.earliest_store_time(topic, queue_id)
        waited_ms = self._clock.now_ms() - store.message_store_time(topic, queue_id, offset) if offset < end else 0
        times_ms = {
            "consumeTimeStamp": store.message_store_time(topic, queue_id, offset - 1) if offset > 0 else earliest_ms,
            "maxTimeStamp": store.message_store_time(topic, queue_id, end - 1),
            "minTimeStamp": earliest_ms,
        }
        return {
            **times_ms,
            **{f"{name}Str": _readable(time_ms) for name, time_ms in times_ms.items()},
            "delayTime": waited_ms,
            "messageQueue": queue_to_json(MessageQueue(topic, self._broker_name, queue_id)),
        }

    @handles(QueryConsumeQueue)
    def units(self, request: QueryConsumeQueue, call: Call) -> Later:
        """Units from `index` on, as many as stand in one file, `UNITS_MAX` at most."""
        topic, queue_id = request.topic or "null", request.queue_id
        place = f"{queue_id}@{topic}"
        if not self._store.has_queue(topic, queue_id):
            raise RequestRefused("SYSTEM_ERROR", f"{place} is not exist!")
        found = self._store.units(topic, queue_id, request.index, min(max(request.count, 1), UNITS_MAX))
        if not found:
            call.reply(remark=f"Index {request.index} of {place} is not exist!")
            return LATER
        body: dict[str, Any] = {
            "maxQueueIndex": self._store.max_offset(topic, queue_id),
            "minQueueIndex": self._store.min_offset(topic, queue_id),
            "queueData": [
                {"eval": False, "physicOffset": physical_offset, "physicSize": size, "tagsCode": tags_code}
                for physical_offset, size, tags_code in found[: max(request.count, 0)]
            ],
        }
        if request.consumer_group is not None:
            body.update(self._wanted(topic, request.consumer_group))
        call.reply(body=fastjson.dumps(body))
        return LATER

    def _wanted(self, topic: str, group: str) -> dict[str, Any]:
        subscription = self._members.subscription(group, topic)
        if subscription is None:
            return {"filterData": f"{group}@{topic} is not online!"}
        return {"filterData": self._filters.described(topic, group), "subscriptionData": subscription.to_json()}


def _readable(time_ms: int) -> str:
    """A time as Java shows it here, in the zone of the broker: `2026-11-18#04:31:54:135`."""
    whole_s, ms = divmod(time_ms, 1000)
    return f"{time.strftime('%Y-%m-%d#%H:%M:%S', time.localtime(whole_s))}:{ms:03}"
