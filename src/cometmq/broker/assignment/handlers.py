"""Assignments and request modes by request.

An answer without assignments tells the client to keep what it has; an empty list takes everything from it.

Mirrors: QueryAssignmentProcessor, AdminBrokerProcessor.getAllMessageRequestMode.
"""

from __future__ import annotations

from cometmq.broker.assignment.modes import RequestModes
from cometmq.broker.assignment.strategies import STRATEGIES, divide, divide_for_pop
from cometmq.broker.assignment.topic_queues import TopicQueues
from cometmq.broker.config import BrokerConfig
from cometmq.broker.groups import Groups
from cometmq.broker.members import Members
from cometmq.broker.topics import Topics
from cometmq.errors import RequestRefused
from cometmq.model import names
from cometmq.model.queue import MessageQueue
from cometmq.net.routes import DONE, LATER, Call, Later, handles
from cometmq.wire import fastjson
from cometmq.wire.bodies.assignment import (
    POP,
    PULL,
    AssignmentQuery,
    RequestMode,
    decode_assignment_query,
    decode_request_mode,
    encode_assignment,
)
from cometmq.wire.bodies.heartbeat import BROADCASTING, CLUSTERING, LITE_SELECTIVE
from cometmq.wire.requests.members import GetAllMessageRequestMode, QueryAssignment, SetMessageRequestMode
from cometmq.wire.schema import Header


class AssignmentHandlers:
    """Answers consumers that let the broker balance, and the admins who choose for them."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: Topics,
        groups: Groups,
        members: Members,
        modes: RequestModes,
        queues: TopicQueues,
    ) -> None:
        self._config = config
        self._topics = topics
        self._groups = groups
        self._members = members
        self._modes = modes
        self._queues = queues

    @handles(QueryAssignment)
    async def query(self, request: QueryAssignment, call: Call) -> Later:
        if not call.body:
            raise RequestRefused("SYSTEM_ERROR", "the request has no body: topic, consumerGroup and more are expected")
        query = decode_assignment_query(call.body)
        topic, group = query.topic, query.consumer_group
        if topic is None:
            raise RequestRefused("SYSTEM_ERROR", "the topic is missing: assignments are made by topic")
        if query.message_model == LITE_SELECTIVE:
            call.reply(body=encode_assignment(None, None))
            return LATER
        if query.message_model not in (CLUSTERING, BROADCASTING):
            raise RequestRefused("SYSTEM_ERROR", f"the message model is {query.message_model}: nothing can be assigned")
        if group is None and query.message_model == CLUSTERING:
            raise RequestRefused("SYSTEM_ERROR", "the consumer group is missing: its members share the queues")
        mode = self._mode_of(topic, group or "")
        queues = await self._known_queues(topic, query)
        call.reply(body=encode_assignment(self._assign(query, group or "", queues, mode), mode.mode))
        return LATER

    def _mode_of(self, topic: str, group: str) -> RequestMode:
        mode = self._modes.get(topic, group)
        if mode is not None:
            return mode
        if topic.startswith(names.RETRY_PREFIX) or self._config.default_message_request_mode == PULL:
            return RequestMode(topic, group)
        return RequestMode(topic, group, POP, self._config.default_pop_share_queue_num)

    async def _known_queues(self, topic: str, query: AssignmentQuery) -> list[MessageQueue] | None:
        if query.message_model == CLUSTERING and topic.startswith(names.LMQ_PREFIX):
            return [MessageQueue(topic, self._config.broker_name, 0)]
        return await self._queues.of(topic)

    def _assign(
        self, query: AssignmentQuery, group: str, queues: list[MessageQueue] | None, mode: RequestMode
    ) -> list[MessageQueue] | None:
        if queues is None or query.message_model == BROADCASTING or not self._config.server_load_balancer_enable:
            return queues
        members = self._members.consumer_group(group)
        strategy = STRATEGIES.get(query.strategy_name or "")
        if members is None or strategy is None:
            return None
        clients = sorted(members.client_ids)
        if mode.mode == POP:
            return divide_for_pop(strategy, query.client_id, queues, clients, mode.pop_share_queue_num)
        return divide(strategy, query.client_id, queues, clients)

    @handles(SetMessageRequestMode)
    def set_mode(self, request: SetMessageRequestMode, call: Call) -> Header:
        if not call.body:
            raise RequestRefused("SYSTEM_ERROR", "the request has no body: topic, consumerGroup and mode are expected")
        mode = decode_request_mode(call.body)
        if mode.topic is None:
            raise RequestRefused("SYSTEM_ERROR", "the topic is missing: a mode is set for a topic and a group")
        if mode.topic.startswith(names.RETRY_PREFIX):
            raise RequestRefused("NO_PERMISSION", "retry topic is not allowed to set mode")
        if self._topics.get(mode.topic) is None:
            raise RequestRefused("TOPIC_NOT_EXIST", f"topic[{mode.topic}] not exist")
        if mode.consumer_group is None:
            raise RequestRefused("SYSTEM_ERROR", "the consumer group is missing: a mode is set for a topic and a group")
        if self._groups.find(mode.consumer_group) is None:
            raise RequestRefused("SUBSCRIPTION_GROUP_NOT_EXIST", "subscription group does not exist")
        self._modes.put(mode.topic, mode.consumer_group, mode)
        self._modes.persist()
        return DONE

    @handles(GetAllMessageRequestMode)
    def get_all(self, request: GetAllMessageRequestMode, call: Call) -> Later:
        call.reply(body=fastjson.dumps(self._modes.to_json()))
        return LATER
