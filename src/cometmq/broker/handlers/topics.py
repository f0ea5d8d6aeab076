"""Topics by request: create, change, list, look up, delete.

A change is saved before it is answered. Mirrors: AdminBrokerProcessor.
"""

from __future__ import annotations

from collections.abc import Awaitable

from cometmq.broker.attributes import parse_changes
from cometmq.broker.config import BrokerConfig
from cometmq.broker.handlers.paging import page_asked_for
from cometmq.broker.offsets import Offsets
from cometmq.broker.topics import Topics
from cometmq.broker.upkeep import Upkeep
from cometmq.errors import RequestRefused
from cometmq.model import names
from cometmq.model.topic import TopicConfig
from cometmq.net.routes import DONE, LATER, Call, Later, handles
from cometmq.store.engine import Store
from cometmq.wire import fastjson
from cometmq.wire.bodies.topic_configs import FILTER_TYPES, decode_topic_configs, encode_all_topics
from cometmq.wire.requests.admin import (
    AllTopicConfigReply,
    CreateTopic,
    CreateTopicList,
    DeleteTopicInBroker,
    GetAllTopicConfig,
    GetTopicConfig,
)
from cometmq.wire.schema import Header

# What Java leaves in the remark of a success here; clients ignore it, and comparisons see it.
_REMARK = "not set any response code"


class TopicHandlers:
    """Answers admin tools, clients that create topics, and slaves that copy the table."""

    def __init__(self, config: BrokerConfig, topics: Topics, offsets: Offsets, store: Store, upkeep: Upkeep) -> None:
        self._config = config
        self._topics = topics
        self._offsets = offsets
        self._store = store
        self._upkeep = upkeep

    @handles(CreateTopic)
    def create(self, request: CreateTopic, call: Call) -> Later:
        if request.topic_filter_type not in FILTER_TYPES:
            named = "null" if request.topic_filter_type is None else request.topic_filter_type
            raise RequestRefused("SYSTEM_ERROR", f"topicFilterType = [{named}] value invalid")
        self._check_name(request.topic)
        topic = TopicConfig(
            request.topic,
            request.read_queue_nums,
            request.write_queue_nums,
            request.perm,
            request.topic_filter_type,
            request.topic_sys_flag or 0,
            request.order,
            parse_changes(request.attributes),
        )
        self._check_type(topic)
        return self._update([topic], call)

    @handles(CreateTopicList)
    def create_list(self, request: CreateTopicList, call: Call) -> Later:
        topics = decode_topic_configs(call.body)
        for topic in topics:
            self._check_name(topic.name)
            self._check_type(topic)
        return self._update(topics, call)

    def _update(self, topics: list[TopicConfig], call: Call) -> Later:
        self._topics.update_all(topics)
        self._topics.persist()
        call.reply(remark=_REMARK)
        return LATER

    def _check_name(self, name: str) -> None:
        fault = names.topic_fault(name)
        if fault is not None:
            raise RequestRefused("INVALID_PARAMETER", fault)
        self._check_not_system(name)

    def _check_not_system(self, name: str) -> None:
        if self._config.validate_system_topic_when_update_topic and self._topics.is_system(name):
            raise RequestRefused("INVALID_PARAMETER", f"The topic[{name}] is conflict with system topic.")

    def _check_type(self, topic: TopicConfig) -> None:
        if topic.attributes.get("+message.type") == "MIXED" and not self._config.enable_mixed_message_type:
            raise RequestRefused("INVALID_PARAMETER", "MIXED message type is not supported.")

    @handles(DeleteTopicInBroker)
    def delete(self, request: DeleteTopicInBroker, call: Call) -> Awaitable[Header]:
        name = request.topic
        if not name or name.isspace():
            raise RequestRefused("INVALID_PARAMETER", "The specified topic is blank.")
        self._check_not_system(name)
        doomed = [name]
        if self._config.clear_retry_topic_when_delete_topic:
            for group in sorted(self._offsets.groups_of(name)):
                retry_topics = (f"{names.RETRY_PREFIX}{group}+{name}", f"{names.RETRY_PREFIX}{group}_{name}")
                doomed += [topic for topic in retry_topics if topic in self._topics]
        for topic in doomed:
            self._delete(topic)
        return self._settle(f"the topic {name}")

    async def _settle(self, deleted: str) -> Header:
        await self._upkeep.settle(deleted)
        return DONE

    def _delete(self, name: str) -> None:
        """Again after a kill in the middle it does what is left to do, as nothing here depends on the table."""
        self._topics.delete(name)
        self._topics.persist()
        self._offsets.remove_topic(name)
        self._offsets.persist()
        if names.topic_fault(name.replace("+", "_")) is None:  # only such a name can be that of a folder
            self._store.delete_topic(name)

    @handles(GetAllTopicConfig)
    def get_all(self, request: GetAllTopicConfig, call: Call) -> Later:
        version = self._topics.data_version
        page = page_asked_for(self._config, version, request.data_version, request.topic_seq, request.max_topic_num)
        chosen = list(self._topics) if page is None else self._topics.page(*page)
        body = encode_all_topics(chosen, version, self._topics.mapping_version)
        call.reply(AllTopicConfigReply(len(self._topics)), body=body)
        return LATER

    @handles(GetTopicConfig)
    def get(self, request: GetTopicConfig, call: Call) -> Later:
        topic = self._topics.get(request.topic)
        if topic is None:
            raise RequestRefused("TOPIC_NOT_EXIST", f"No topic in this broker. topic: {request.topic}")
        call.reply(body=fastjson.dumps(topic.to_json()))
        return LATER
