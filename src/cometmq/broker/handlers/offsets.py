"""Offsets by request: what groups have committed, and where queues begin and end.

Mirrors: ConsumerManageProcessor, AdminBrokerProcessor.
"""

from __future__ import annotations

from cometmq.broker.beginnings import Beginnings
from cometmq.broker.groups import Groups
from cometmq.broker.offsets import Offsets
from cometmq.broker.topics import Topics
from cometmq.errors import RequestRefused
from cometmq.net.routes import DONE, LATER, Call, Later, handles
from cometmq.store.engine import Store
from cometmq.wire.bodies.offsets import encode_offsets
from cometmq.wire.requests.consume import (
    EarliestTimeReply,
    GetAllConsumerOffset,
    GetEarliestStoreTime,
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from cometmq.wire.schema import Header


class OffsetHandlers:
    """Answers consumers that begin, go on, or look around."""

    def __init__(self, topics: Topics, groups: Groups, offsets: Offsets, store: Store) -> None:
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._store = store
        self._beginnings = Beginnings(store)

    # --- committed offsets

    @handles(QueryConsumerOffset)
    def query(self, request: QueryConsumerOffset, call: Call) -> Header:
        topic, queue_id = request.topic, request.queue_id
        if request.consumer_group is not None:
            offset = self._offsets.query(request.consumer_group, topic, queue_id)
            if offset is not None:
                return OffsetReply(offset)
        if request.set_zero_if_not_found is False:
            raise RequestRefused("QUERY_NOT_FOUND", "Not found, do not set to zero, maybe this group boot first")
        if self._beginnings.is_young(topic, queue_id):
            return OffsetReply(0)
        raise RequestRefused("QUERY_NOT_FOUND", "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")

    @handles(UpdateConsumerOffset)
    def update(self, request: UpdateConsumerOffset, call: Call) -> Header | Later:
        group, topic = request.consumer_group, request.topic
        if group is None or group not in self._groups:
            named = "null" if group is None else group
            raise RequestRefused("SUBSCRIPTION_GROUP_NOT_EXIST", f"Group {named} not exist!")
        if topic not in self._topics:
            raise RequestRefused("TOPIC_NOT_EXIST", f"Topic {topic} not exist!")
        if request.queue_id is None:
            raise RequestRefused("INVALID_PARAMETER", f"QueueId is null, topic is {topic}")
        if request.commit_offset is None:
            raise RequestRefused("INVALID_PARAMETER", f"Offset is null, topic is {topic}")
        if self._offsets.has_reset(group, topic, request.queue_id):
            call.reply(remark="Offset has been previously reset")
            return LATER
        self._offsets.commit(group, topic, request.queue_id, request.commit_offset)
        return DONE

    @handles(GetAllConsumerOffset)
    def get_all(self, request: GetAllConsumerOffset, call: Call) -> Later:
        call.reply(body=encode_offsets(self._offsets.to_json()))
        return LATER

    # --- where queues begin and end

    @handles(SearchOffset)
    def search(self, request: SearchOffset, call: Call) -> Header:
        upper = (request.boundary_type or "").lower() == "upper"
        return OffsetReply(
            self._store.offset_by_time(
                request.topic, request.queue_id, request.timestamp, "UPPER" if upper else "LOWER"
            )
        )

    @handles(GetMaxOffset)
    def max_offset(self, request: GetMaxOffset, call: Call) -> Header:
        return OffsetReply(self._store.max_offset(request.topic, request.queue_id))

    @handles(GetMinOffset)
    def min_offset(self, request: GetMinOffset, call: Call) -> Later:
        # Java's answer to this one has an empty remark where the others have none.
        call.reply(OffsetReply(self._store.min_offset(request.topic, request.queue_id)), remark="")
        return LATER

    @handles(GetEarliestStoreTime)
    def earliest(self, request: GetEarliestStoreTime, call: Call) -> Header:
        return EarliestTimeReply(self._store.earliest_store_time(request.topic, request.queue_id))
