"""What clients and tools ask about topics, and what tools change about them.

Mirrors: ClientRequestProcessor, DefaultRequestProcessor, ZoneRouteRPCHook.
"""

from __future__ import annotations

from cometmq.clock import Clock
from cometmq.errors import RequestRefused
from cometmq.model.route import ORDER_NAMESPACE
from cometmq.namesrv.handlers.brokers import ZONE_NAME_FIELD
from cometmq.namesrv.kv import KvTable
from cometmq.namesrv.route_table import RouteTable
from cometmq.namesrv.settings import Settings
from cometmq.net.routes import DONE, LATER, Call, Later, handles
from cometmq.wire.bodies.cluster import encode_cluster_info
from cometmq.wire.bodies.route import decode_route, encode_route
from cometmq.wire.bodies.topics import encode_topic_list
from cometmq.wire.codes import VERSION_STRICT_JSON
from cometmq.wire.requests.namesrv import (
    AddWritePerm,
    AddWritePermReply,
    DeleteTopicInNamesrv,
    GetAllTopicList,
    GetClusterInfo,
    GetHasUnitSubTopicList,
    GetHasUnitSubUnunitTopicList,
    GetRouteInfo,
    GetSystemTopicList,
    GetTopicsByCluster,
    GetUnitTopicList,
    RegisterTopicInNamesrv,
    WipeWritePerm,
    WipeWritePermReply,
)
from cometmq.wire.schema import Header

ZONE_MODE_FIELD = "__ZONE_MODE"
FAQ_URL = "https://rocketmq.apache.org/docs/bestPractice/06FAQ"

# Bits of a topic's system flag.
_UNIT = 0x1
_UNIT_SUB = 0x2


class RouteHandlers:
    """Where a topic is."""

    def __init__(self, table: RouteTable, kv: KvTable, settings: Settings, clock: Clock) -> None:
        self._table = table
        self._kv = kv
        self._settings = settings
        self._clock = clock
        self._started_ms = clock.monotonic_ms()

    @handles(GetRouteInfo)
    def route(self, request: GetRouteInfo, call: Call) -> Later:
        self._check_ready()
        topic = request.topic
        route = self._table.route(topic) if topic is not None else None
        if topic is None or route is None:
            shown = "null" if topic is None else topic
            raise RequestRefused(
                "TOPIC_NOT_EXIST",
                f"No topic route info in name server for the topic: {shown}\nSee {FAQ_URL} for further details.",
            )
        if self._settings.current.order_message_enable:
            route.order_conf = self._kv.get(ORDER_NAMESPACE, topic)
        strict = call.command.version >= VERSION_STRICT_JSON or request.accept_standard_json_only
        zone = call.command.ext.get(ZONE_NAME_FIELD, "").strip()
        if zone and call.command.ext.get(ZONE_MODE_FIELD, "").lower() == "true":
            # Upstream answers zones in the dialect, whoever asks.
            route, strict = route.in_zone(zone), False
        call.reply(body=encode_route(route, strict=strict))
        return LATER

    def _check_ready(self) -> None:
        """Just started, we may not have heard of all brokers; rather no answer than half of one."""
        config = self._settings.current
        up_ms = self._clock.monotonic_ms() - self._started_ms
        if config.need_wait_for_service and up_ms < config.wait_seconds_for_service * 1000:
            raise RequestRefused("SYSTEM_ERROR", "name server not ready")


class TopicListHandlers:
    """Lists of clusters and topics."""

    def __init__(self, table: RouteTable, settings: Settings) -> None:
        self._table = table
        self._settings = settings

    @handles(GetClusterInfo)
    def cluster_info(self, request: GetClusterInfo, call: Call) -> Later:
        call.reply(body=encode_cluster_info(self._table.brokers, self._table.clusters))
        return LATER

    @handles(GetAllTopicList)
    def all_topics(self, request: GetAllTopicList, call: Call) -> Later:
        if not self._settings.current.enable_all_topic_list:
            raise RequestRefused("SYSTEM_ERROR", "disable")
        call.reply(body=encode_topic_list(self._table.topics))
        return LATER

    @handles(GetTopicsByCluster)
    def topics_by_cluster(self, request: GetTopicsByCluster, call: Call) -> Later:
        return self._list(call, self._table.topics_of_cluster(request.cluster or ""))

    @handles(GetSystemTopicList)
    def system_topics(self, request: GetSystemTopicList, call: Call) -> Later:
        call.reply(body=encode_topic_list(*self._table.system_topics()))
        return LATER

    @handles(GetUnitTopicList)
    def unit_topics(self, request: GetUnitTopicList, call: Call) -> Later:
        return self._list(call, self._table.topics_with_flag(has=_UNIT))

    @handles(GetHasUnitSubTopicList)
    def unit_sub_topics(self, request: GetHasUnitSubTopicList, call: Call) -> Later:
        return self._list(call, self._table.topics_with_flag(has=_UNIT_SUB))

    @handles(GetHasUnitSubUnunitTopicList)
    def unit_sub_topics_outside_units(self, request: GetHasUnitSubUnunitTopicList, call: Call) -> Later:
        return self._list(call, self._table.topics_with_flag(has=_UNIT_SUB, lacks=_UNIT))

    def _list(self, call: Call, topics: list[str]) -> Later:
        if not self._settings.current.enable_topic_list:
            raise RequestRefused("SYSTEM_ERROR", "disable")
        call.reply(body=encode_topic_list(topics))
        return LATER


class TopicAdminHandlers:
    """Changes that tools make."""

    def __init__(self, table: RouteTable) -> None:
        self._table = table

    @handles(RegisterTopicInNamesrv)
    def register_topic(self, request: RegisterTopicInNamesrv, call: Call) -> Header:
        queues = decode_route(call.body).queues if call.body else []
        if request.topic is not None:
            self._table.register_topic(request.topic, queues)
        return DONE

    @handles(DeleteTopicInNamesrv)
    def delete_topic(self, request: DeleteTopicInNamesrv, call: Call) -> Header:
        if request.topic is not None:
            self._table.delete_topic(request.topic, request.cluster_name)
        return DONE

    @handles(WipeWritePerm)
    def wipe_write_perm(self, request: WipeWritePerm, call: Call) -> Header:
        return WipeWritePermReply(self._table.wipe_write_perm(request.broker_name or ""))

    @handles(AddWritePerm)
    def add_write_perm(self, request: AddWritePerm, call: Call) -> Header:
        return AddWritePermReply(self._table.add_write_perm(request.broker_name or ""))
