"""Telling every name server who we are and which topics we have.

Each name server is told on its own, every 30 s (`registerNameServerPeriod`, at least once a minute) and at once when
a topic changes, in which case only the changed topics go. One that cannot be reached costs the others nothing; it is
told again at the next round.
With `forceRegister=false` a round first asks each which version of the table it has; the question is a sign of life.
A broker that may not be written to or read from (`brokerPermission`) says so of each of its topics.
What the reply says of ordered topics goes back into the topics; to a slave it says who is the master (`on_master`).

Mirrors: BrokerOuterAPI (registerBrokerAll, needRegister), BrokerController.registerIncrementBrokerData.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Callable, Coroutine
from dataclasses import replace

from cometmq.broker.config import BrokerConfig
from cometmq.broker.topics import Topics
from cometmq.errors import CometError
from cometmq.model.sysflag import READ_WRITE
from cometmq.model.topic import TopicConfig
from cometmq.net.name_servers import NameServers
from cometmq.net.pool import Pool
from cometmq.wire import fastjson
from cometmq.wire.bodies.kv import decode_kv_table
from cometmq.wire.bodies.registration import Registration as Announcement
from cometmq.wire.bodies.registration import encode_registration
from cometmq.wire.requests.namesrv import (
    QueryDataVersion,
    QueryDataVersionReply,
    RegisterBroker,
    RegisterBrokerReply,
    UnregisterBroker,
)

log = logging.getLogger("cometmq.broker")

CONNECT_TIMEOUT_MS = 3_000
UNREGISTER_TIMEOUT_MS = 3_000
ROUND_S_MAX = 60.0  # as in the original: a name server forgets a broker that was silent for two minutes


class Registration:
    """Keeps the name servers informed until closed."""

    def __init__(
        self, config: BrokerConfig, address: str, ha_address: str, topics: Topics, name_servers: NameServers
    ) -> None:
        self._config = config
        self._address = address
        self._ha_address = ha_address
        self._topics = topics
        self._name_servers = name_servers
        self._pool = Pool()
        self._changed: dict[str, TopicConfig] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._silent: set[str] = set()
        self._closed = False
        self.round_s = min(config.register_name_server_period / 1000, ROUND_S_MAX)
        self.on_master: Callable[[str | None, str | None], None] = lambda ha_address, address: None

    async def announce_all(self) -> None:
        """Tell everybody everything."""
        await self._announce_to_all(self._register)

    async def announce_again(self) -> None:
        """The regular round: everything, to those who are to hear it again."""
        await self._announce_to_all(self._register if self._config.force_register else self._register_if_changed)

    async def _announce_to_all(self, tell: Callable[[str, list[TopicConfig]], Coroutine[None, None, None]]) -> None:
        await self._name_servers.refresh()
        topics = list(self._topics)
        async with asyncio.TaskGroup() as group:
            for namesrv in self._name_servers.addresses:
                group.create_task(tell(namesrv, topics))

    def announce(self, topic: TopicConfig) -> None:
        """A topic has changed: tell everybody at the end of this turn of the loop."""
        if self._closed or not self._name_servers.addresses:
            return  # whoever is found later is told everything
        if not self._changed:
            task = asyncio.get_running_loop().create_task(self._announce_changed())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._changed[topic.name] = topic

    async def _announce_changed(self) -> None:
        await asyncio.sleep(0)
        changed, self._changed = list(self._changed.values()), {}
        async with asyncio.TaskGroup() as group:
            for namesrv in self._name_servers.addresses:
                group.create_task(self._register(namesrv, changed))

    async def _register_if_changed(self, namesrv: str, topics: list[TopicConfig]) -> None:
        config = self._config
        question = QueryDataVersion(self._address, config.broker_cluster_name, config.broker_name, config.broker_id)
        try:
            channel = await self._pool.channel(namesrv, timeout_ms=CONNECT_TIMEOUT_MS)
            version = fastjson.dumps(self._topics.data_version.to_json())
            answer = await channel.call(question, version, timeout_ms=config.register_broker_timeout_mills)
            changed = QueryDataVersionReply.read(answer.ext).changed
        except CometError:
            changed = True  # to register says what is wrong
        if changed:
            await self._register(namesrv, topics)

    def _permitted(self, topic: TopicConfig) -> TopicConfig:
        """As clients may use it: a topic has no permission that its broker lacks."""
        own = self._config.broker_permission
        return topic if own & READ_WRITE == READ_WRITE else replace(topic, perm=topic.perm & own)

    async def _register(self, namesrv: str, topics: list[TopicConfig]) -> None:
        config = self._config
        registered = {topic.name: self._permitted(topic) for topic in topics}
        body = encode_registration(
            Announcement(self._topics.data_version, registered), compressed=config.compressed_register
        )
        request = RegisterBroker(
            broker_name=config.broker_name,
            broker_addr=self._address,
            cluster_name=config.broker_cluster_name,
            ha_server_addr=self._ha_address,
            broker_id=config.broker_id,
            heartbeat_timeout_millis=config.broker_not_active_timeout_millis
            if config.enable_slave_acting_master
            else None,
            enable_acting_master=config.enable_slave_acting_master,
            compressed=config.compressed_register,
            body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
        )
        timeout_ms = config.register_broker_timeout_mills
        try:
            channel = await self._pool.channel(namesrv, timeout_ms=min(timeout_ms, CONNECT_TIMEOUT_MS))
            answer = await channel.call(request, body, timeout_ms=timeout_ms)
            said = RegisterBrokerReply.read(answer.ext)
            self.on_master(said.ha_server_addr, said.master_addr)
            if answer.body:
                self._topics.follow_order_config(decode_kv_table(answer.body))
        except CometError as fault:
            if namesrv not in self._silent:
                log.warning("cannot register with the name server %s: %s; trying again every round", namesrv, fault)
                self._silent.add(namesrv)
            return
        if namesrv in self._silent:
            log.warning("registered with the name server %s again", namesrv)
            self._silent.discard(namesrv)

    async def close(self) -> None:
        """Leave every name server."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *map(self._unregister, self._name_servers.addresses), return_exceptions=True)
        await self._pool.close()

    async def _unregister(self, namesrv: str) -> None:
        config = self._config
        channel = await self._pool.channel(namesrv, timeout_ms=1_000)
        request = UnregisterBroker(
            broker_name=config.broker_name,
            broker_addr=self._address,
            cluster_name=config.broker_cluster_name,
            broker_id=config.broker_id,
        )
        await channel.call(request, timeout_ms=UNREGISTER_TIMEOUT_MS)
