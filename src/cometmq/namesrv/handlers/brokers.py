"""What brokers say: here I am, I am alive, I leave, do you know my latest table.

Mirrors: DefaultRequestProcessor.registerBroker and its neighbours.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable

from cometmq.clock import Clock
from cometmq.errors import RequestRefused
from cometmq.model.route import ORDER_NAMESPACE
from cometmq.namesrv.brokers import BrokerIdentity, Notice, Registered
from cometmq.namesrv.kv import KvTable
from cometmq.namesrv.route_table import RouteTable
from cometmq.namesrv.settings import Settings
from cometmq.net.routes import DONE, LATER, Call, Later, handles
from cometmq.wire import fastjson
from cometmq.wire.bodies.cluster import encode_member_group
from cometmq.wire.bodies.kv import encode_kv_table
from cometmq.wire.bodies.registration import decode_data_version, decode_registration
from cometmq.wire.requests.namesrv import (
    BrokerHeartbeat,
    GetBrokerMemberGroup,
    QueryDataVersion,
    QueryDataVersionReply,
    RegisterBroker,
    RegisterBrokerReply,
    UnregisterBroker,
)
from cometmq.wire.schema import Header

log = logging.getLogger("cometmq.namesrv")

ZONE_NAME_FIELD = "__ZONE_NAME"


class BrokerHandlers:
    """Registrations and signs of life."""

    def __init__(
        self, table: RouteTable, kv: KvTable, settings: Settings, clock: Clock, send: Callable[[list[Notice]], None]
    ) -> None:
        self._table = table
        self._kv = kv
        self._settings = settings
        self._clock = clock
        self._send = send

    @handles(RegisterBroker)
    def register(self, request: RegisterBroker, call: Call) -> Later:
        _check_crc(request, call)
        body = decode_registration(
            call.body, compressed=request.compressed, version=call.command.version, now_ms=self._clock.now_ms()
        )
        who = _identity(request.cluster_name, request.broker_name, request.broker_addr, request.broker_id)
        if who is None:
            log.warning("a registration from %s was ignored: it lacks cluster, name or address", call.channel.peer)
            result = Registered()
        else:
            result = self._table.register(
                who,
                body,
                now_ms=self._clock.monotonic_ms(),
                connection=call.channel,
                ha_addr=request.ha_server_addr,
                timeout_ms=request.heartbeat_timeout_millis,
                zone_name=call.command.ext.get(ZONE_NAME_FIELD),
                enable_acting_master=request.enable_acting_master,
            )
        call.reply(RegisterBrokerReply(result.ha_addr, result.master_addr), body=self._order_conf())
        self._send(result.notices)
        return LATER

    def _order_conf(self) -> bytes:
        pairs = self._kv.namespace(ORDER_NAMESPACE)
        wanted = self._settings.current.return_order_topic_config_to_broker
        return encode_kv_table(pairs) if wanted and pairs is not None else b""

    @handles(UnregisterBroker)
    def unregister(self, request: UnregisterBroker, call: Call) -> Header:
        who = _identity(request.cluster_name, request.broker_name, request.broker_addr, request.broker_id)
        if who is not None:
            self._send(self._table.unregister([who]))
        return DONE

    @handles(BrokerHeartbeat)
    def heartbeat(self, request: BrokerHeartbeat, call: Call) -> Header:
        self._table.heard(request.cluster_name, request.broker_addr, self._clock.monotonic_ms())
        return DONE

    @handles(QueryDataVersion)
    def query_data_version(self, request: QueryDataVersion, call: Call) -> Later:
        theirs = decode_data_version(call.body) if call.body else None
        cluster, addr = request.cluster_name, request.broker_addr
        changed = self._table.is_changed(cluster, addr, theirs)
        self._table.heard(cluster, addr, self._clock.monotonic_ms())
        ours = self._table.data_version(cluster, addr)
        call.reply(QueryDataVersionReply(changed), body=fastjson.dumps(ours.to_json()) if ours is not None else b"")
        return LATER

    @handles(GetBrokerMemberGroup)
    def member_group(self, request: GetBrokerMemberGroup, call: Call) -> Later:
        addrs = self._table.members(request.broker_name or "")
        call.reply(body=encode_member_group(request.cluster_name, request.broker_name, addrs))
        return LATER


def _identity(cluster: str | None, name: str | None, addr: str | None, broker_id: int | None) -> BrokerIdentity | None:
    if cluster is None or name is None or addr is None or broker_id is None:
        return None
    return BrokerIdentity(cluster, name, addr, broker_id)


def _check_crc(request: RegisterBroker, call: Call) -> None:
    """The sum is Java's: the sign bit is cleared. 0 means that the broker sent none."""
    if request.body_crc32 and zlib.crc32(call.body) & 0x7FFFFFFF != request.body_crc32:
        raise RequestRefused("SYSTEM_ERROR", "crc32 not match")
