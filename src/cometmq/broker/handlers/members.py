"""Clients and their groups by request: heartbeat, goodbye, the member list, the check of a subscription.

A heartbeat makes the group and its retry topic where they are absent. They are saved by the app's ticker, not
before the answer: the next heartbeat makes them again if a kill comes first.

Mirrors: ClientManageProcessor, ConsumerManageProcessor.
"""

from __future__ import annotations

from cometmq.broker.config import BrokerConfig
from cometmq.broker.filters import read_expression
from cometmq.broker.groups import Groups
from cometmq.broker.members import Client, Members
from cometmq.broker.topics import UNIT_SUBSCRIBED, Topics
from cometmq.clock import Clock
from cometmq.errors import RequestRefused
from cometmq.model import names
from cometmq.net.routes import DONE, LATER, Call, Later, handles
from cometmq.wire.bodies.heartbeat import CONSUME_ACTIVELY, ConsumerData, HeartbeatData, decode_heartbeat
from cometmq.wire.bodies.members import decode_checked_subscription, encode_consumer_ids
from cometmq.wire.requests.members import (
    CheckClientConfig,
    GetConsumerListByGroup,
    HeartBeat,
    HeartBeatReply,
    UnregisterClient,
)
from cometmq.wire.schema import Header


class MemberHandlers:
    """Answers clients about themselves and each other."""

    def __init__(self, config: BrokerConfig, members: Members, groups: Groups, topics: Topics, clock: Clock) -> None:
        self._config = config
        self._members = members
        self._groups = groups
        self._topics = topics
        self._clock = clock

    @handles(HeartBeat)
    def heartbeat(self, request: HeartBeat, call: Call) -> Header:
        if not call.body:
            raise RequestRefused("SYSTEM_ERROR", "the heartbeat has no body: clientID and groups are expected")
        data = decode_heartbeat(call.body, self._clock.now_ms())
        command = call.command
        client = Client(call.channel, data.client_id, command.language, command.version)
        changed = False
        for consumer in data.consumers:
            changed |= self._consumer(client, consumer, data)
        for group in data.producer_groups:
            self._members.register_producer(client, group)
        # A client that speaks version 1 is always told to send its subscriptions.
        return HeartBeatReply(is_sub_change=changed if data.fingerprint else True)

    def _consumer(self, client: Client, consumer: ConsumerData, data: HeartbeatData) -> bool:
        """Register one group of the client; says whether its fingerprint was another one before."""
        if self._config.reject_pull_consumer_enable and consumer.consume_type == CONSUME_ACTIVELY:
            return False
        changed = self._members.fingerprint_changed(consumer.group, data.fingerprint)
        group = self._groups.find(consumer.group)
        if group is None:
            return changed
        self._topics.create_on_send_back(
            names.RETRY_PREFIX + consumer.group,
            group.retry_queue_nums,
            order=any((topic := self._topics.get(item.topic)) and topic.order for item in consumer.subscriptions),
            sys_flag=UNIT_SUBSCRIBED if consumer.unit_mode else 0,
        )
        self._members.register_consumer(
            client,
            consumer,
            notify=group.notify_consumer_ids_changed_enable,
            with_subscriptions=not (data.fingerprint and data.without_sub),
        )
        return changed

    @handles(UnregisterClient)
    def unregister(self, request: UnregisterClient, call: Call) -> Header:
        if request.producer_group is not None:
            self._members.unregister_producer(call.channel, request.producer_group)
        if request.consumer_group is not None:
            group = self._groups.find(request.consumer_group)
            notify = group is None or group.notify_consumer_ids_changed_enable
            self._members.unregister_consumer(call.channel, request.consumer_group, notify=notify)
        return DONE

    @handles(GetConsumerListByGroup)
    def members(self, request: GetConsumerListByGroup, call: Call) -> Later:
        group = self._members.consumer_group(request.consumer_group)
        if group is None:
            raise RequestRefused("SYSTEM_ERROR", f"no consumer for this group, {request.consumer_group}")
        call.reply(body=encode_consumer_ids(group.client_ids))
        return LATER

    @handles(CheckClientConfig)
    def check(self, request: CheckClientConfig, call: Call) -> Header:
        subscription = decode_checked_subscription(call.body)
        if subscription is None or subscription.is_tag:
            return DONE
        if not self._config.enable_property_filter:
            raise RequestRefused(
                "SYSTEM_ERROR",
                f"The broker does not support consumer to filter message by {subscription.expression_type}",
            )
        read_expression(subscription.sub_string, subscription.expression_type)
        return DONE
