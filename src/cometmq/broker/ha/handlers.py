"""What is told about replication: GET_BROKER_HA_STATUS (907).

Mirrors: AdminBrokerProcessor.getBrokerHaStatus, DefaultHAService.getRuntimeInfo.
"""

from __future__ import annotations

from cometmq.broker.ha.master import MasterSide
from cometmq.broker.ha.slave import SlaveSide
from cometmq.net.routes import LATER, Call, Later, handles
from cometmq.store.engine import Store
from cometmq.wire.bodies.ha_status import Peer, encode_master_status, encode_slave_status
from cometmq.wire.requests.ha import GetBrokerHaStatus


class HaHandlers:
    """Answers slaves that are about to follow, and operators."""

    def __init__(self, store: Store, master: MasterSide | None, slave: SlaveSide | None) -> None:
        self._store = store
        self._master = master
        self._slave = slave

    @handles(GetBrokerHaStatus)
    def status(self, request: GetBrokerHaStatus, call: Call) -> Later:
        if self._slave is not None:
            call.reply(body=encode_slave_status(self._slave.status()))
            return LATER
        store = self._store
        slaves = [] if self._master is None else self._master.statuses()
        ours = Peer(
            store.written_offset,
            first_offset=store.min_physical_offset,
            flushed_offset=store.flushed_offset,
            segment_size=store.config.mapped_file_size_commit_log,
        )
        call.reply(body=encode_master_status(ours, slaves))
        return LATER
