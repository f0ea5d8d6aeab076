"""A group of brokers whose master may be gone: who is first in it, where consumers read, and what a slave does then.

    group.py           who is there
    watch.py           heartbeats, and the list of members
    handlers.py        what brokers and NameServers tell
    reading_place.py   whom a consumer is told to ask next
    given_back.py      offsets that were committed at a slave
    standing_in.py     when a slave acts
    duties.py          what a slave does in its master's stead
    bridge.py          … by sending messages to another master of the cluster
    returning.py       a master that comes back

Mirrors: the parts of BrokerController that `enableSlaveActingMaster` switches on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from cometmq.broker.acting.given_back import GivenBack
from cometmq.broker.acting.handlers import GroupHandlers
from cometmq.broker.acting.returning import Returning
from cometmq.broker.acting.standing_in import LOOK_EVERY_S, Follower, StandingIn, settled
from cometmq.broker.housekeeping import Job

if TYPE_CHECKING:
    from cometmq.broker.core import Core


def install(core: Core) -> None:
    """Answer for the group; with `enableSlaveActingMaster`, watch it."""
    config = core.config
    core.routes.add(GroupHandlers(core.group, core.store.written_offset))
    if config.enable_slave_acting_master:
        watch = core.watch
        core.closing.push_async_callback(watch.close)
        core.jobs.append(Job("sending heartbeats", config.broker_heartbeat_interval / 1000, watch.send_heartbeats))
        core.jobs.append(Job("listing the group", config.sync_broker_member_group_period / 1000, watch.list_members))


def stand_by(core: Core, follower: Follower, wake_readers: Callable[[], None]) -> None:
    """Let a slave see whether its master is there, and act for it while it is not."""
    core.closing.push_async_callback(core.duties.close)
    core.closing.push_async_callback(GivenBack(core.offsets, lambda: follower.source).close)
    core.duties.settled = partial(settled, core.store, follower)
    standing_in = StandingIn(core.config, core.group, core.duties, follower)
    standing_in.on_first = lambda: core.offsets.data_version.advance(core.clock.now_ms())  # Java takes a younger only
    standing_in.on_master_back = wake_readers  # they waited here because there was nobody else to ask
    core.jobs.append(Job("looking for the master", LOOK_EVERY_S, standing_in.look))


async def come_back(core: Core) -> None:
    """A master asks its slaves what they did in its stead, and only then works."""
    if core.role.is_slave or core.role.working:
        return
    returning = Returning(core.group, core.offsets, core.taken_back, core.store.max_offset, core.store.written_offset)
    await core.name_servers.refresh()
    await returning.take_back(await core.watch.members() or {})
    await core.role.work(True)
