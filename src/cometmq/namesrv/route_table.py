"""What the NameServer knows: brokers by name, names by cluster, queues by topic. Pure state, no sockets, no clock.

    clusters   cluster → broker names
    brokers    broker name → addresses by id (0 the master)
    topics     topic → broker name → queues
    live       (cluster, address) → when it was last heard, its data version, its connection

Invariants: a broker name is in `brokers` while one of its addresses is registered, and in the topics only while it
is in `brokers` (a topic registered by hand included). Only the master, or the slave that stands in for it, says
what queues there are. Methods that change who is there return the notices that the remaining members must get.

Mirrors: RouteInfoManager. On purpose otherwise: a lost connection takes all brokers that registered over it, not
the first; a refused registration leaves no empty broker behind.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from cometmq.errors import RequestRefused
from cometmq.model.data_version import DataVersion
from cometmq.model.names import SYSTEM_PREFIX
from cometmq.model.route import MASTER_ID, BrokerData, QueueData, QueueMapping, TopicRoute
from cometmq.model.sysflag import READ_WRITE, Perm
from cometmq.model.topic import TopicConfig
from cometmq.namesrv.brokers import BrokerIdentity, Live, Notice, Registered, min_id_notices
from cometmq.namesrv.settings import Settings
from cometmq.wire.bodies.registration import Registration

log = logging.getLogger("cometmq.namesrv")

HEARTBEAT_TIMEOUT_MS: Final = 120_000
BROKERS_MAX: Final = 10_000
MEMBER_SYNC_PREFIX: Final = SYSTEM_PREFIX + "SYNC_BROKER_MEMBER_"
_NO_WRITE: Final = ~int(Perm.WRITE)


class RouteTable:
    """The tables and the rules by which registrations change them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.topics: dict[str, dict[str, QueueData]] = {}
        self.brokers: dict[str, BrokerData] = {}
        self.clusters: dict[str, dict[str, None]] = {}
        self._live: dict[tuple[str, str], Live] = {}
        self._filter_servers: dict[tuple[str, str], list[str]] = {}
        self._mappings: dict[str, dict[str, QueueMapping]] = {}

    # --- registering

    def register(
        self,
        who: BrokerIdentity,
        body: Registration,
        *,
        now_ms: int,
        connection: object,
        ha_addr: str | None = None,
        timeout_ms: int | None = None,
        zone_name: str | None = None,
        enable_acting_master: bool | None = None,
    ) -> Registered:
        """Take in a broker. `enable_acting_master` is None for brokers too old to know of it."""
        key = (who.cluster, who.addr)
        if key not in self._live and len(self._live) >= BROKERS_MAX:
            raise RequestRefused("SYSTEM_ERROR", f"{BROKERS_MAX} brokers are registered, the most allowed")
        if body.topics is None:
            log.warning("a registration of %s without a table of topics was ignored", who)
            return Registered()
        broker = self.brokers.get(who.name) or BrokerData(who.cluster, who.name)
        min_id_before = broker.min_broker_id or 0
        if who.id not in broker.addrs and len(body.topics) == 1:
            # One topic alone is the update of a broker that is known, and this one is not.
            raise RequestRefused("SYSTEM_ERROR", "register broker failed")
        # The same address under another id was a slave that became the master, or the reverse.
        for other_id in [i for i, addr in broker.addrs.items() if addr == who.addr and i != who.id]:
            del broker.addrs[other_id]
        if self._is_outdated(who, broker, body.data_version):
            self._live.pop(key, None)
            return Registered()

        self.clusters.setdefault(who.cluster, {})[who.name] = None
        self.brokers[who.name] = broker
        broker.enable_acting_master = bool(enable_acting_master)
        broker.zone_name = zone_name
        is_new = not broker.addrs.get(who.id)
        broker.addrs[who.id] = who.addr
        stands_in = enable_acting_master is not None and who.id != MASTER_ID and who.id == broker.min_broker_id
        if who.id == MASTER_ID or stands_in:
            self._take_topics(who, body, is_new, read_only=stands_in and broker.enable_acting_master)
        self._live[key] = Live(
            now_ms, HEARTBEAT_TIMEOUT_MS if timeout_ms is None else timeout_ms, body.data_version, connection, ha_addr
        )
        if body.filter_servers:
            self._filter_servers[key] = body.filter_servers
        elif body.filter_servers is not None:
            self._filter_servers.pop(key, None)
        result = self._master_of(who, broker)
        if who.id < min_id_before and self._settings.current.notify_min_broker_id_changed:
            result.notices = min_id_notices(broker.addrs, offline_addr=None, ha_addr=ha_addr)
        return result

    def _is_outdated(self, who: BrokerIdentity, broker: BrokerData, version: DataVersion) -> bool:
        """Whether another address holds this id with a younger state: a master that was replaced comes back late."""
        held_by = broker.addrs.get(who.id)
        if held_by is None or held_by == who.addr:
            return False
        holder = self._live.get((who.cluster, held_by))
        if holder is None or holder.data_version.state_version <= version.state_version:
            return False
        log.warning("the registration of %s was ignored: %s has its id with a younger state", who, held_by)
        return True

    def _take_topics(self, who: BrokerIdentity, body: Registration, is_new: bool, *, read_only: bool) -> None:
        assert body.topics is not None
        if self._settings.current.delete_topic_with_broker_registration and not body.queue_mappings:
            for topic in [t for t, queues in self.topics.items() if who.name in queues and t not in body.topics]:
                self._drop_queues(topic, who.name)
        all_changed = is_new or self.is_changed(who.cluster, who.addr, body.data_version)
        for config in body.topics.values():
            if all_changed or who.name not in self.topics.get(config.name, {}):
                perm = config.perm & _NO_WRITE if read_only else config.perm
                self._set_queues(who.name, config, perm)
        if all_changed:
            for topic, mapping in body.queue_mappings.items():
                self._mappings.setdefault(topic, {})[mapping.broker_name] = mapping

    def _set_queues(self, broker_name: str, config: TopicConfig, perm: int) -> None:
        queues = QueueData(broker_name, config.read_queue_nums, config.write_queue_nums, perm, config.sys_flag)
        self.topics.setdefault(config.name, {})[broker_name] = queues

    def _master_of(self, who: BrokerIdentity, broker: BrokerData) -> Registered:
        master_addr = broker.addrs.get(MASTER_ID)
        if who.id == MASTER_ID or master_addr is None:
            return Registered()
        master = self._live.get((who.cluster, master_addr))
        return Registered(master_addr, master.ha_addr) if master is not None else Registered()

    def register_topic(self, topic: str, queues: list[QueueData]) -> None:
        """Add queues by hand; a broker name that is not known ends it, as upstream."""
        known = [queue.broker_name in self.brokers for queue in queues]
        usable = queues[: known.index(False)] if False in known else queues
        if topic in self.topics:
            self.topics[topic].update({queue.broker_name: queue for queue in usable})
        elif usable and usable == queues:
            self.topics[topic] = {queue.broker_name: queue for queue in queues}

    # --- signs of life

    def is_changed(self, cluster: str, addr: str, version: DataVersion | None) -> bool:
        """Whether a broker's table differs from what it registered last."""
        return version is None or self.data_version(cluster, addr) != version

    def data_version(self, cluster: str, addr: str) -> DataVersion | None:
        live = self._live.get((cluster, addr))
        return live.data_version if live is not None else None

    def heard(self, cluster: str, addr: str, now_ms: int) -> None:
        """A heartbeat; one of an unknown broker means nothing."""
        live = self._live.get((cluster, addr))
        if live is not None:
            live.heard_ms = now_ms

    def expire(self, now_ms: int) -> tuple[list[object], list[Notice]]:
        """Drop the brokers that were silent too long. Returns their connections, which are to be closed."""
        silent = {key: live for key, live in self._live.items() if live.heard_ms + live.timeout_ms < now_ms}
        for (_, addr), live in silent.items():
            log.warning("the broker at %s was silent for more than %d ms and leaves the routes", addr, live.timeout_ms)
        return [live.connection for live in silent.values()], self._drop_addresses(silent)

    def lost(self, connection: object) -> list[Notice]:
        """A connection is gone, and with it the brokers that registered over it last."""
        gone = [key for key, live in self._live.items() if live.connection is connection]
        for _, addr in gone:
            log.warning("the connection of the broker at %s was lost; it leaves the routes", addr)
        return self._drop_addresses(gone)

    def _drop_addresses(self, keys: Iterable[tuple[str, str]]) -> list[Notice]:
        leaving = []
        for cluster, addr in list(keys):
            holders = (b for b in self.brokers.values() if b.cluster == cluster and addr in b.addrs.values())
            broker = next(holders, None)
            if broker is None:
                self._live.pop((cluster, addr), None)
                continue
            broker_id = next(i for i, held in broker.addrs.items() if held == addr)
            leaving.append(BrokerIdentity(cluster, broker.broker_name, addr, broker_id))
        return self.unregister(leaving)

    # --- unregistering

    def unregister(self, leaving: Iterable[BrokerIdentity]) -> list[Notice]:
        """Drop brokers, several in one pass over the topics."""
        removed: set[str] = set()
        reduced: dict[str, BrokerIdentity | None] = {}
        for who in leaving:
            self._live.pop((who.cluster, who.addr), None)
            self._filter_servers.pop((who.cluster, who.addr), None)
            broker = self.brokers.get(who.name)
            if broker is None:
                continue
            was_first = who.id == broker.min_broker_id
            broker.addrs = {i: addr for i, addr in broker.addrs.items() if addr != who.addr}
            if broker.addrs:
                reduced[who.name] = who if was_first else reduced.get(who.name)
            else:
                self._forget(who.cluster, who.name)
                reduced.pop(who.name, None)
                removed.add(who.name)
        self._clean_topics(removed, reduced)
        if not self._settings.current.notify_min_broker_id_changed:
            return []
        notices: list[Notice] = []
        for name, left in reduced.items():
            if left is not None and self.brokers[name].enable_acting_master:
                notices += min_id_notices(self.brokers[name].addrs, offline_addr=left.addr, ha_addr=None)
        return notices

    def _forget(self, cluster: str, broker_name: str) -> None:
        del self.brokers[broker_name]
        names = self.clusters.get(cluster, {})
        names.pop(broker_name, None)
        if not names:
            self.clusters.pop(cluster, None)

    def _clean_topics(self, removed: set[str], reduced: Iterable[str]) -> None:
        headless = [name for name in reduced if self._has_acting_master(self.brokers[name])]
        if not removed and not headless:
            return
        for topic, queues in list(self.topics.items()):
            for name in removed & queues.keys():
                self._drop_queues(topic, name)
            for name in headless:
                if name in queues:
                    queues[name] = replace(queues[name], perm=queues[name].perm & _NO_WRITE)

    def _has_acting_master(self, broker: BrokerData) -> bool:
        return broker.enable_acting_master and (broker.min_broker_id or 0) > MASTER_ID

    def _drop_queues(self, topic: str, broker_name: str) -> None:
        queues = self.topics.get(topic, {})
        queues.pop(broker_name, None)
        if not queues:
            self.topics.pop(topic, None)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Drop a topic, of one cluster or of all. A broker that still has it brings it back when it registers."""
        if not cluster:
            self.topics.pop(topic, None)
            return
        for name in self.clusters.get(cluster, {}):
            self._drop_queues(topic, name)

    # --- permissions

    def wipe_write_perm(self, broker_name: str) -> int:
        """Let a broker drain: nobody writes to it any more. Returns how many topics that touched."""
        return self._set_perm(broker_name, lambda perm: perm & _NO_WRITE)

    def add_write_perm(self, broker_name: str) -> int:
        return self._set_perm(broker_name, lambda _: READ_WRITE)

    def _set_perm(self, broker_name: str, change: Callable[[int], int]) -> int:
        count = 0
        for queues in self.topics.values():
            if broker_name in queues:
                queues[broker_name] = replace(queues[broker_name], perm=change(queues[broker_name].perm))
                count += 1
        return count

    # --- answering

    def route(self, topic: str) -> TopicRoute | None:
        """Where a topic is; None if it is nowhere."""
        queues = self.topics.get(topic)
        if queues is None:
            return None
        brokers = [self.brokers[name].copy() for name in queues if name in self.brokers]
        if not brokers:
            return None
        route = TopicRoute(list(queues.values()), brokers, queue_mappings=self._mappings.get(topic))
        for broker in brokers if self._filter_servers else ():
            for addr in broker.addrs.values():
                if (servers := self._filter_servers.get((broker.cluster, addr))) is not None:
                    route.filter_servers[addr] = servers
        if self._settings.current.support_acting_master and not topic.startswith(MEMBER_SYNC_PREFIX):
            for broker in brokers:
                _let_slave_act(broker, queues[broker.broker_name])
        return route

    def members(self, broker_name: str) -> dict[int, str]:
        """The addresses of a broker name, by id."""
        broker = self.brokers.get(broker_name)
        return dict(broker.addrs) if broker is not None else {}

    def topics_of_cluster(self, cluster: str) -> list[str]:
        names = self.clusters.get(cluster, {})
        return [topic for topic, queues in self.topics.items() if not names.keys().isdisjoint(queues)]

    def system_topics(self) -> tuple[list[str], str | None]:
        """Names of clusters and brokers, which are topics too, and an address where to ask for more."""
        names = dict.fromkeys(name for cluster, members in self.clusters.items() for name in (cluster, *members))
        addrs = (addr for broker in self.brokers.values() for addr in broker.addrs.values())
        return list(names), next(addrs, None)

    def topics_with_flag(self, *, has: int, lacks: int = 0) -> list[str]:
        """Topics by the bits of their system flag, as their first broker has it."""
        found = []
        for topic, queues in self.topics.items():
            flag = next(iter(queues.values())).topic_sys_flag
            if flag & has and not flag & lacks:
                found.append(topic)
        return found


def _let_slave_act(broker: BrokerData, queues: QueueData) -> None:
    """In an answer, show the first slave of a group that lost its master under the master's id."""
    first = broker.min_broker_id
    if first is None or MASTER_ID in broker.addrs or not broker.enable_acting_master or queues.perm & Perm.WRITE:
        return
    broker.addrs[MASTER_ID] = broker.addrs.pop(first)
