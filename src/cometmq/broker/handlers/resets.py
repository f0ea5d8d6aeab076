"""Moving a group by request: to a time, or one queue to an offset.

With `useServerSideResetOffset` the broker moves the group, and its clients learn of it from their next pull. Without,
the clients are told (220) and move themselves, which needs them to be there and to have committed every queue.

Mirrors: AdminBrokerProcessor.resetOffset, Broker2Client.resetOffset.
"""

from __future__ import annotations

from cometmq.broker.config import BrokerConfig
from cometmq.broker.groups import Groups
from cometmq.broker.members import ConsumerGroup, Members
from cometmq.broker.offsets import Offsets
from cometmq.broker.topics import Topics
from cometmq.errors import RequestRefused
from cometmq.model.queue import MessageQueue
from cometmq.model.topic import TopicConfig
from cometmq.net.routes import LATER, Call, Later, handles
from cometmq.store.engine import Store
from cometmq.wire.bodies.offsets import encode_queue_offset_list, encode_queue_offsets
from cometmq.wire.codes import LanguageCode
from cometmq.wire.requests.consume import ResetOffset, ResetOffsetInClient

NO_OFFSET = -1


class ResetHandlers:
    """Answers admin tools."""

    def __init__(
        self, config: BrokerConfig, topics: Topics, groups: Groups, members: Members, offsets: Offsets, store: Store
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._members = members
        self._offsets = offsets
        self._store = store

    @handles(ResetOffset)
    def reset(self, request: ResetOffset, call: Call) -> Later:
        topic = self._topics.get(request.topic)
        if topic is None:
            raise RequestRefused("TOPIC_NOT_EXIST", f"Topic {request.topic} does not exist")
        group = request.group or "null"
        if self._config.use_server_side_reset_offset:
            moved = self._move(group, request, topic)
        else:
            moved = self._tell(group, request, topic, for_cpp=call.command.language == LanguageCode.CPP)
        call.reply(body=encode_queue_offsets(moved))
        return LATER

    def _move(self, group: str, request: ResetOffset, topic: TopicConfig) -> dict[MessageQueue, int]:
        if group not in self._groups:
            raise RequestRefused("SUBSCRIPTION_GROUP_NOT_EXIST", f"Group {group} does not exist")
        queue_ids = [request.queue_id] if request.queue_id >= 0 else list(range(topic.read_queue_nums))
        if not queue_ids:
            raise RequestRefused("SYSTEM_ERROR", "No queues to reset.")
        wanted = None if request.queue_id < 0 or request.offset == NO_OFFSET else request.offset
        if wanted is not None:
            self._check(request.topic, request.queue_id, wanted)
        moved = {
            queue_id: self._at_time(request.topic, queue_id, request.timestamp) if wanted is None else wanted
            for queue_id in queue_ids
        }
        for queue_id, offset in moved.items():
            self._offsets.assign_reset(group, request.topic, queue_id, offset)
        return {self._queue(request.topic, queue_id): offset for queue_id, offset in moved.items()}

    def _check(self, topic: str, queue_id: int, offset: int) -> None:
        first, end = self._store.min_offset(topic, queue_id), self._store.max_offset(topic, queue_id)
        if (first >= 0 and offset < first) or offset > end + 1:
            raise RequestRefused("SYSTEM_ERROR", f"Target offset {offset} not in consume queue range [{first}-{end}]")

    def _at_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        if timestamp_ms < 0:
            return self._store.max_offset(topic, queue_id)
        return self._store.offset_by_time(topic, queue_id, timestamp_ms, "LOWER")

    def _tell(self, group: str, request: ResetOffset, topic: TopicConfig, *, for_cpp: bool) -> dict[MessageQueue, int]:
        moved: dict[MessageQueue, int] = {}
        for queue_id in range(topic.write_queue_nums):
            committed = self._offsets.query(group, request.topic, queue_id)
            if committed is None:
                raise RequestRefused("SYSTEM_ERROR", f"the consumer group <{group}> has committed nothing yet")
            offset = max(0, self._at_time(request.topic, queue_id, request.timestamp))
            moved[self._queue(request.topic, queue_id)] = offset if request.is_force else min(offset, committed)
        members = self._members.consumer_group(group)
        if members is None:
            raise RequestRefused(
                "CONSUMER_NOT_ONLINE",
                f"Consumer not online, so can not reset offset, Group: {group} Topic: {request.topic} "
                f"Timestamp: {request.timestamp}",
            )
        notice = ResetOffsetInClient(group, request.topic, request.timestamp)
        self._notify(members, notice, encode_queue_offset_list(moved) if for_cpp else encode_queue_offsets(moved))
        return moved

    @staticmethod
    def _notify(members: ConsumerGroup, notice: ResetOffsetInClient, body: bytes) -> None:
        for channel in members.clients:
            if channel.is_open:
                channel.notify(notice, body)

    def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        return MessageQueue(topic, self._config.broker_name, queue_id)
