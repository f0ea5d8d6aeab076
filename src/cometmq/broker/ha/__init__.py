"""Master and slave: one log in several places.

    config       the settings
    master       serves the HA port: sends the log to every slave that asks
    replicas     which slaves have how much, and whom an acknowledgement waits for
    slave        follows a master
    metadata     copies the master's tables (topics, groups, offsets, progress)
    handlers     GET_BROKER_HA_STATUS

The frames are in `wire/ha.py`, the log of a slave in `store/following.py`; `broker/durability.py` holds back answers.

Mirrors: org.apache.rocketmq.store.ha, org.apache.rocketmq.broker.slave.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from cometmq.broker.core import Core
from cometmq.broker.ha.config import HaConfig
from cometmq.broker.ha.handlers import HaHandlers
from cometmq.broker.ha.master import MasterSide
from cometmq.broker.ha.metadata import Metadata
from cometmq.broker.ha.slave import SlaveSide
from cometmq.broker.replicated import Replicated
from cometmq.broker.role import SYNC_MASTER
from cometmq.model.names import stored_topic_fault
from cometmq.net.pool import Pool
from cometmq.wire.requests.admin import GetAllGroupConfig, GetAllTopicConfig
from cometmq.wire.requests.consume import GetAllConsumerOffset

FIND_MASTER_EVERY_S: Final = 3.0


def install_master(core: Core, config: HaConfig) -> MasterSide:
    """Serve slaves; the caller says where to listen."""
    waits = core.role.name == SYNC_MASTER and config.in_sync_replicas > 1
    master = MasterSide(config, core.store, core.durability, waits=waits, acting=core.config.enable_slave_acting_master)
    core.closing.push_async_callback(master.close)
    core.routes.add(HaHandlers(core.store, master, None))
    return master


def follow_topics(core: Core, body: bytes) -> None:
    """Have the topics that the master has; of one that it has deleted nothing is left here either."""
    before = [topic.name for topic in core.topics]
    core.topics.follow(body)
    for name in before:
        if name not in core.topics and not core.topics.is_system(name):
            core.offsets.remove_topic(name)
            if stored_topic_fault(name) is None:
                core.store.delete_topic(name)


def install_slave(core: Core, config: HaConfig) -> SlaveSide:
    """Follow a master; whoever hears who it is says so with `told`."""
    pool = Pool()
    core.closing.push_async_callback(pool.close)
    followed = core.store.follow()
    slave = SlaveSide(config, core.config.broker_id, core.store, core.durability, followed, pool, core.clock)
    tables = [
        Replicated("topics", GetAllTopicConfig(), partial(follow_topics, core)),
        Replicated("groups", GetAllGroupConfig(), core.groups.follow),
        Replicated("consumer offsets", GetAllConsumerOffset(), core.offsets.follow, of_the_log=True),
        *core.replicated,
    ]
    metadata = Metadata(tables, pool, slave, lambda: core.store.written_offset)
    slave.before_connect = metadata.ask

    def go_on() -> None:
        followed.go_on()
        core.durability.dispatch_soon()

    followed.wait_for_topics(core.topics.__contains__, metadata.ask_soon)
    metadata.on_topics = go_on
    core.durability.on_confirmed.append(metadata.log_has_grown)
    slave.start()
    metadata.start()
    core.closing.push_async_callback(slave.close)
    core.closing.push_async_callback(metadata.close)
    core.routes.add(HaHandlers(core.store, None, slave))
    return slave
