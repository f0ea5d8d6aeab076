"""What brokers of one name and NameServers tell a broker of its group.

Mirrors: AdminBrokerProcessor.notifyMinBrokerIdChange, updateBrokerHaInfo.
"""

from __future__ import annotations

from cometmq.broker.acting.group import BrokerGroup, Change
from cometmq.broker.config import MASTER_ID
from cometmq.errors import RequestRefused
from cometmq.net.routes import DONE, Call, handles
from cometmq.wire.requests.namesrv import NotifyMinBrokerIdChange
from cometmq.wire.requests.replicas import ExchangeHaInfo, ExchangeHaInfoReply
from cometmq.wire.schema import Header


class GroupHandlers:
    """Answers for the group."""

    def __init__(self, group: BrokerGroup, first_end: int) -> None:
        self._group = group
        self._first_end = first_end  # of the log, when this broker started

    @handles(NotifyMinBrokerIdChange)
    def notify(self, request: NotifyMinBrokerIdChange, call: Call) -> Header:
        if request.min_broker_id is None:
            raise RequestRefused("SYSTEM_ERROR", "minBrokerId must be given")
        self._group.told(
            Change(request.min_broker_id, request.min_broker_addr, request.offline_broker_addr, request.ha_broker_addr)
        )
        return DONE

    @handles(ExchangeHaInfo)
    def exchange(self, request: ExchangeHaInfo, call: Call) -> Header:
        if request.master_ha_address is not None:
            self._group.on_master(request.master_ha_address, request.master_address)
        elif self._group.own_id == MASTER_ID:
            return ExchangeHaInfoReply(self._group.own_ha_addr, self._first_end, self._group.own_addr)
        return ExchangeHaInfoReply()
