"""A broker: this file wires, and decides nothing.

start   bind the ports → read the topics → open the store → make the services → listen → register
stop    unregister → send clients away, if asked to → take no more requests → answer who waits → close the
        connections → save → close the store
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import random
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from cometmq.broker import acting, asking_clients, assignment, delay, ha, locks, pop, reply, retry, timer, transaction
from cometmq.broker.acknowledgements import Acknowledgements
from cometmq.broker.acting.bridge import EscapeBridge
from cometmq.broker.acting.group import BrokerGroup
from cometmq.broker.acting.reading_place import ReadingPlace
from cometmq.broker.acting.watch import Watch
from cometmq.broker.admission import Admission
from cometmq.broker.batch_intake import BatchIntake
from cometmq.broker.beginnings import Beginnings
from cometmq.broker.broadcast_offsets import BroadcastOffsets
from cometmq.broker.core import Arrivals, Core
from cometmq.broker.durability import Durability
from cometmq.broker.filters import Filters
from cometmq.broker.groups import Groups
from cometmq.broker.handlers.cleaning import CleaningHandlers
from cometmq.broker.handlers.groups import GroupHandlers
from cometmq.broker.handlers.members import MemberHandlers
from cometmq.broker.handlers.offsets import OffsetHandlers
from cometmq.broker.handlers.pull import Pull
from cometmq.broker.handlers.query import QueryHandlers
from cometmq.broker.handlers.resets import ResetHandlers
from cometmq.broker.handlers.runtime_info import RuntimeInfo
from cometmq.broker.handlers.send import Send
from cometmq.broker.handlers.topics import TopicHandlers
from cometmq.broker.handlers.tracking import TrackingHandlers
from cometmq.broker.housekeeping import Housekeeping, Job
from cometmq.broker.inner_batches import refuse_stray_number
from cometmq.broker.inner_messages import InnerMessages
from cometmq.broker.inner_reader import InnerReader
from cometmq.broker.intake import Intake
from cometmq.broker.locks.table import QueueLocks
from cometmq.broker.members import Members
from cometmq.broker.offsets import Offsets
from cometmq.broker.ports import FAST_PORT_SHIFT, HA_PORT_SHIFT, ON_MAIN_PORT_ONLY
from cometmq.broker.promise import promise
from cometmq.broker.registration import Registration
from cometmq.broker.retry.dead_letters import DeadLetters
from cometmq.broker.role import Role
from cometmq.broker.saved import Saved
from cometmq.broker.send_lane import open_lane
from cometmq.broker.sent_properties import SentProperties
from cometmq.broker.settings import BrokerSettings, load_settings
from cometmq.broker.statistics import SAMPLE_EVERY_S
from cometmq.broker.target_topics import TargetTopics
from cometmq.broker.topics import Topics
from cometmq.broker.upkeep import Upkeep
from cometmq.clock import Clock, SystemClock
from cometmq.model import properties
from cometmq.model.topic import TopicConfig
from cometmq.net.name_servers import NameServers, address_server_url
from cometmq.net.routes import Routes, send_away
from cometmq.net.server import Server, bind, bind_group, ip_of
from cometmq.store.engine import LASTING, Store
from cometmq.store.fs import OsFs
from cometmq.store.needed_tables import TOPICS, check_tables_there
from cometmq.store.recovery import Progress
from cometmq.store.tables import TableFile
from cometmq.wire.message_id import UniqueIds
from cometmq.wire.record import pack_host

__all__ = ["Broker", "BrokerSettings", "load_settings"]

log = logging.getLogger("cometmq.broker")

CAPABILITIES: tuple[Callable[[Core], None], ...] = (
    locks.install,
    assignment.install,
    asking_clients.install,
    reply.install,
    transaction.install,
    timer.install,
    delay.install,
    retry.install,
    pop.install,
    acting.install,
)


class Broker:
    """One broker of a cluster."""

    def __init__(
        self, settings: BrokerSettings, *, clock: Clock | None = None, progress: Progress | None = None
    ) -> None:
        self.settings = settings
        self._progress = progress  # told how far the store is while it opens, in a thread
        self._clock = clock or SystemClock()
        self._closing = AsyncExitStack()
        self.address = self.ha_address = ""
        self.port = 0
        self.read_only_because: str | None = None  # the log is damaged
        self.fault_at_stop: str | None = None  # the same, or the log could not be synced

    async def start(self) -> None:
        """Serve; raises `ConfigError`, `StoreLocked` or another `StoreError` if that cannot be."""
        async with AsyncExitStack() as closing:
            await self._start(closing)
            self._closing = closing.pop_all()

    async def stop(self) -> None:
        """Stop cleanly; what was acknowledged is on disk afterwards."""
        await self._closing.aclose()

    def _close_store(self, store: Store) -> None:
        self.fault_at_stop = store.fault if store.state.name in LASTING else None
        store.close()

    @property
    def promise(self) -> str:
        """What an acknowledgement means, or why there will be none."""
        if self.read_only_because is not None:
            return f"FOR READING ONLY: {self.read_only_because}"
        return promise(self.settings.broker.broker_role, self.settings.store, self.settings.ha)

    async def _start(self, closing: AsyncExitStack) -> None:
        for warning in self.settings.warnings:
            log.warning("%s", warning)
        config = self.settings.broker
        shifts = (0, FAST_PORT_SHIFT) if config.ha_listen_port else (0, FAST_PORT_SHIFT, HA_PORT_SHIFT)
        sockets = bind_group(config.bind_address, config.listen_port, shifts)
        for sock in sockets:
            closing.callback(sock.close)
        if config.ha_listen_port:
            sockets.append(bind(config.bind_address, config.ha_listen_port))
            closing.callback(sockets[-1].close)
        self.port = sockets[0].getsockname()[1]
        config = dataclasses.replace(config, listen_port=self.port)
        ip = config.broker_ip1 or "127.0.0.1"
        self.address = _join(ip, self.port)
        ha_address = self.ha_address = _join(config.broker_ip2 or ip, sockets[2].getsockname()[1])

        loop = asyncio.get_running_loop()
        store_config = self.settings.store
        store_host = pack_host(await ip_of(ip), self.port)
        fs = OsFs()

        def table(name: str) -> TableFile:
            return TableFile(fs, f"{store_config.config_dir}/{name}")

        check_tables_there(fs, store_config)
        topics = Topics(table(TOPICS), config, self._clock)
        opened = partial(
            Store.open,
            store_config,
            store_host=store_host,
            clock=self._clock,
            is_batch_topic=topics.is_batch,
            progress=self._progress,
        )
        store = await loop.run_in_executor(None, opened)
        closing.callback(self._close_store, store)
        upkeep = Upkeep(store)
        closing.callback(upkeep.close)
        topics.persist()  # a young store has it before its first message
        if store.damages:
            self.read_only_because = store.fault
            log.error("%s", store.fault)
        groups = Groups(table("subscriptionGroup.json"), config, self._clock)
        offsets = Offsets(table("consumerOffset.json"), config, self._clock)
        if store.writable and not Role(config.broker_role).is_slave:  # whose log follows its tables
            offsets.bound(store.max_offset)
        members = Members(
            self._clock,
            config.channel_expired_timeout,
            notify_enable=config.notify_consumer_ids_changed_enable,
            brought_live_ms=config.subscription_expired_timeout,
        )
        name_servers = NameServers(
            config.namesrv_addr or "",
            by_dns=config.fetch_name_srv_addr_by_dns_lookup,
            address_server=address_server_url(config.namesrv_domain, config.namesrv_subgroup)
            if config.fetch_namesrv_addr_by_address_server
            else None,
        )
        filters = Filters(table("consumerFilter.json"), config, self._clock)
        members.on_subscribe, members.on_empty = filters.register, filters.unregister
        saved: list[Saved] = [offsets, groups, topics, filters]
        closing.callback(lambda: [table.persist() for table in saved])

        routes = Routes()
        server = Server(routes.answer, on_close=members.closed, idle_s=config.server_channel_max_idle_time_seconds)
        closing.push_async_callback(server.close)
        acknowledgements = Acknowledgements(config)
        arrivals = Arrivals()
        durability = Durability(store, acknowledgements, before_answers=topics.persist, on_arrivals=arrivals)
        upkeep.before_settling = durability.dispatched
        closing.push_async_callback(durability.close)
        unique_ids = UniqueIds(store_host[:-4], os.getpid(), random.getrandbits(32))
        group = BrokerGroup(config.broker_id, self.address, ha_address, config.enable_slave_acting_master)
        bridge = EscapeBridge(config, name_servers, self._clock)
        closing.push_async_callback(bridge.close)
        role = Role(config.broker_role)
        if config.enable_slave_acting_master and not config.skip_pre_online:
            role.working = False  # until a master has asked its slaves what they did in its stead
        core = Core(
            config,
            self._clock,
            store,
            table,
            topics,
            groups,
            offsets,
            members,
            QueueLocks(self._clock, config.rebalance_lock_max_live_time),
            name_servers,
            durability,
            InnerMessages(store, durability),
            InnerReader(store),
            unique_ids,
            routes,
            arrivals,
            closing,
            group,
            Watch(config, group, name_servers),
            bridge,
            role=role,
            saved=saved,
        )

        messages = core.messages
        messages.add_stage(refuse_stray_number, properties.INNER_NUM)
        own_properties = {**acknowledgements.fixed_fields, properties.CLUSTER: config.broker_cluster_name}
        sent = SentProperties(own_properties, messages.special_keys, lambda: unique_ids.make(self._clock.now_ms()))
        admission = Admission(config, durability)
        send = Send(
            topics,
            TargetTopics(config, topics),
            admission,
            Intake(config, topics, store, durability, messages, sent),
            BatchIntake(store, durability, sent),
            sent,
            DeadLetters(groups, topics, core.locks),
            acknowledgements.fixed_fields,
        )
        broadcasts = BroadcastOffsets(config, members, offsets, Beginnings(store).first_offset, self._clock)
        place = ReadingPlace(
            config, group, is_slave=core.role.is_slave, checks_offsets=store_config.offset_check_in_slave
        )
        pull = Pull(config, topics, groups, members, offsets, broadcasts, filters, store, place, core.reads)
        closing.callback(pull.close)
        arrivals.listeners.append(pull.long_polling.arrived)
        routes.add(
            send,
            pull,
            OffsetHandlers(topics, groups, offsets, store),
            MemberHandlers(config, members, groups, topics, self._clock),
            TopicHandlers(config, topics, offsets, store, upkeep),
            GroupHandlers(config, groups, offsets),
            ResetHandlers(config, topics, groups, members, offsets, store),
            QueryHandlers(store),
            TrackingHandlers(config, self._clock, topics, members, offsets, filters, store),
            CleaningHandlers(topics, store, upkeep),
            runtime_info := RuntimeInfo(config, self._clock, store, durability, core.role, core.reads, core.told),
        )
        for install in CAPABILITIES:
            install(core)
        master = slave = None
        if core.role.is_slave:  # its HA port is held, and not served
            slave = ha.install_slave(core, self.settings.ha)
            acting.stand_by(core, slave, pull.long_polling.wake_all)
        else:
            master = ha.install_master(core, self.settings.ha)
        closing.push_async_callback(routes.close)
        self.codes = routes.codes

        registration = Registration(config, self.address, ha_address, topics, name_servers)
        if slave is not None:
            registration.on_master = slave.told
            find_master = slave.master_finder(registration.announce_all)
            core.jobs.append(Job("looking for the master", ha.FIND_MASTER_EVERY_S, find_master))

        lane = open_lane(store, self._clock, send, sent, admission, durability, acknowledgements)
        if lane is not None:
            server.lane = lane

        def announce(topic: TopicConfig | None) -> None:
            send.forget()
            if lane is not None:
                lane.forget()
            if topic is not None:
                registration.announce(topic)

        topics.on_change = announce

        closing.callback(server.stop_taking)
        if config.enable_shutdown_gracefully:
            closing.push_async_callback(server.drain, send_away, config.shutdown_wait_time_seconds)
        await server.listen(sockets[0])
        await server.listen(sockets[1], routes.without(ON_MAIN_PORT_ONLY).answer)
        if master is not None:
            await master.listen(sockets[2])
        closing.push_async_callback(registration.close)

        async def save_tables() -> None:
            for table in saved:
                await upkeep.save(table)

        housekeeping = Housekeeping(
            [
                Job("registering", registration.round_s, registration.announce_again),
                Job("saving tables", config.flush_consumer_offset_interval / 1000, save_tables),
                Job("expiring clients", 10.0, members.expire),
                Job("committing broadcast offsets", 5.0, broadcasts.settle),
                Job("forgetting filters", 60.0, filters.clean),
                Job("writing queues", store_config.flush_interval_consume_queue / 1000, upkeep.write_queues),
                Job("deleting old files", store_config.clean_resource_interval / 1000, upkeep.delete_expired),
                Job("counting", SAMPLE_EVERY_S, runtime_info.sample),
                *core.jobs,
            ]
        )
        closing.push_async_callback(housekeeping.close)  # first, so that nobody registers us again
        await acting.come_back(core)
        await registration.announce_all()


def _join(ip: str, port: int) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
