"""A group of brokers whose master may be gone: who is first in it, where consumers read, and what a slave does then.

    group.py           who is there
    watch.py           heartbeats, and the list of members
    handlers.py        what brokers and NameServers tell
    reading_place.py   whom a consumer is told to ask next
    given_back.py      offsets that were committed at a slave
    duties.py          what a slave does in its master's stead
    bridge.py          … by sending messages to another master of the cluster
    returning.py       a master that comes back

Mirrors: the parts of BrokerController that `enableSlaveActingMaster` switches on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from cometmq.broker.acting.given_back import GivenBack
from cometmq.broker.acting.group import Change
from cometmq.broker.acting.handlers import GroupHandlers
from cometmq.broker.acting.returning import Returning
from cometmq.broker.housekeeping import Job

if TYPE_CHECKING:
    from cometmq.broker.core import Core


LOOK_EVERY_S: Final = 0.3
SETTLE_EVERY_S: Final = 0.02
SETTLED_WITHIN_S: Final = 3.0  # then it is acted all the same: only the NameServers may have lost the master


class Follower(Protocol):
    """What follows the master's log (`broker/ha`)."""

    master_address: str | None

    @property
    def connected(self) -> bool: ...

    def told(self, ha_address: str | None, master_address: str | None) -> None: ...


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
    group, duties = core.group, core.duties
    group.link_is_up = lambda: follower.connected
    core.closing.push_async_callback(duties.close)
    core.closing.push_async_callback(GivenBack(core.offsets, lambda: follower.master_address).close)

    def all_is_seen() -> bool:
        store = core.store
        return not (follower.connected or store.confirm_offset < store.written_offset or store.dispatch_behind_bytes)

    async def settled() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLED_WITHIN_S):
                while not all_is_seen():  # noqa: ASYNC110 (the stream, the disk and dispatch have no event in common)
                    await asyncio.sleep(SETTLE_EVERY_S)

    duties.settled = settled

    def master_is_here(ha_addr: str | None, addr: str | None) -> None:
        duties.end()
        follower.told(ha_addr, addr)

    def changed(change: Change) -> None:
        if group.is_first:
            core.offsets.data_version.advance(core.clock.now_ms())  # a Java master takes a younger table only
        if group.is_first and core.config.enable_remote_escape:
            duties.begin()
        else:
            duties.end()
        if change.master_is_back:
            follower.told(change.ha_addr, change.min_addr)

    was_there = True

    def look() -> None:
        nonlocal was_there
        was_there, before = group.master_is_there, was_there
        if was_there and not before:
            wake_readers()  # they waited here because there was nobody else to ask

    core.jobs.append(Job("looking for the master", LOOK_EVERY_S, look))
    group.on_master = master_is_here
    group.on_change.append(changed)


async def come_back(core: Core) -> None:
    """A master asks its slaves what they did in its stead, and only then works."""
    if core.role.is_slave or core.role.working:
        return
    returning = Returning(core.group, core.offsets, core.taken_back, core.store.max_offset, core.store.written_offset)
    await core.name_servers.refresh()
    await returning.take_back(await core.watch.members() or {})
    await core.role.work(True)
