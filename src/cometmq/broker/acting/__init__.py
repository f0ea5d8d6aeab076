"""A group of brokers whose master may be gone: who is first in it, where consumers read, and what a slave does then.

    group.py           who is there
    watch.py           heartbeats, and the list of members
    handlers.py        what brokers and NameServers tell
    reading_place.py   whom a consumer is told to ask next

Mirrors: the parts of BrokerController that `enableSlaveActingMaster` switches on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cometmq.broker.acting.handlers import GroupHandlers
from cometmq.broker.acting.watch import Watch
from cometmq.broker.housekeeping import Job

if TYPE_CHECKING:
    from cometmq.broker.core import Core


def install(core: Core) -> None:
    """Answer for the group; with `enableSlaveActingMaster`, watch it."""
    config = core.config
    core.routes.add(GroupHandlers(core.group, core.store.written_offset, lambda master, ha: None))
    if not config.enable_slave_acting_master:
        return
    watch = Watch(config, core.group, core.name_servers)
    core.closing.push_async_callback(watch.close)
    core.jobs.append(Job("sending heartbeats", config.broker_heartbeat_interval / 1000, watch.send_heartbeats))
    core.jobs.append(Job("listing the group", config.sync_broker_member_group_period / 1000, watch.list_members))
