"""What name servers are told: everything in rounds, changes at once, also where they were found late or were away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import StartBroker
from tests.unit.broker.group_kit import until
from tests.unit.broker.state_kit import MemoryTable, StillClock

from cometmq.broker.config import BrokerConfig
from cometmq.broker.registration import Registration
from cometmq.broker.topics import Topics
from cometmq.model.names import AUTO_CREATE_TOPIC
from cometmq.model.route import ORDER_NAMESPACE
from cometmq.model.topic import TopicConfig
from cometmq.namesrv.app import NameServer
from cometmq.namesrv.brokers import BrokerIdentity
from cometmq.namesrv.config import NamesrvConfig
from cometmq.net.name_servers import NameServers


@asynccontextmanager
async def name_server(folder: Path, clock: StillClock | None = None, port: int = 0) -> AsyncIterator[NameServer]:
    namesrv = NameServer(NamesrvConfig(listen_port=port, kv_config_path=str(folder / "kv.json")), clock=clock)
    await namesrv.start()
    try:
        yield namesrv
    finally:
        await namesrv.stop()


@asynccontextmanager
async def registering(*namesrvs: NameServer, by_dns: bool = False, **settings: Any) -> AsyncIterator[Any]:
    """The topics of a broker without the rest of it, and its registration, which is told of their changes."""
    config = BrokerConfig(**settings)
    found = NameServers(";".join(namesrv.address for namesrv in namesrvs), by_dns=by_dns)
    topics = Topics(MemoryTable(), config, StillClock())
    registration = Registration(config, "127.0.0.1:10911", "127.0.0.1:10912", topics, found)
    topics.on_change = lambda topic: registration.announce(topic) if topic is not None else None
    try:
        yield topics, registration
    finally:
        await registration.close()


async def told(namesrv: NameServer, topic: str) -> None:
    async def is_told() -> bool:
        return namesrv.table.route(topic) is not None

    await until(is_told, f"the route of {topic}")


async def test_a_change_before_the_first_look_up_does_not_silence_those_after_it(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv, registering(namesrv, by_dns=True) as (topics, registration):
        topics.update(TopicConfig("Early"))
        await registration.announce_all()
        topics.update(TopicConfig("Late"))
        await told(namesrv, "Late")
        assert namesrv.table.route("Early") is not None


async def test_no_topic_has_a_permission_that_its_broker_lacks(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv, registering(namesrv, broker_permission=4) as (topics, registration):
        topics.update(TopicConfig("Early"))
        await registration.announce_all()
        topics.update(TopicConfig("Late"))
        await told(namesrv, "Late")
        assert [namesrv.table.topics[name]["broker-a"].perm for name in ("Early", "Late", AUTO_CREATE_TOPIC)] == [4] * 3
        assert topics.get("Early").perm == 6  # it is as it was made


async def test_a_round_tells_everything_again(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv, registering(namesrv) as (_, registration):
        await registration.announce_all()
        namesrv.table.delete_topic(AUTO_CREATE_TOPIC)
        await registration.announce_again()
        assert namesrv.table.route(AUTO_CREATE_TOPIC) is not None


async def test_who_has_the_latest_table_is_not_told_again_where_that_is_wanted(tmp_path: Path) -> None:
    clock = StillClock()
    async with (
        name_server(tmp_path / "1", clock) as namesrv,
        name_server(tmp_path / "2") as other,
        registering(namesrv, other, force_register=False) as (topics, registration),
    ):
        await registration.announce_all()
        namesrv.table.delete_topic(AUTO_CREATE_TOPIC)  # which nobody notices
        other.table.unregister([BrokerIdentity("DefaultCluster", "broker-a", "127.0.0.1:10911", 0)])
        clock.time_ms += 100_000
        await registration.announce_again()
        assert namesrv.table.route(AUTO_CREATE_TOPIC) is None
        assert other.table.route(AUTO_CREATE_TOPIC) is not None  # it did not know us any more
        clock.time_ms += 100_000
        namesrv.expire()
        assert namesrv.table.brokers  # to be asked is to hear of us

        topics.on_change = None
        topics.update(TopicConfig("T"))
        await registration.announce_again()
        assert namesrv.table.route("T") is not None


async def test_topics_are_ordered_that_the_name_server_calls_so(tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv, registering(namesrv) as (topics, registration):
        topics.update(TopicConfig("T"))
        topics.update(TopicConfig("U"))
        namesrv.kv.put(ORDER_NAMESPACE, "T", "broker-a:4")
        namesrv.kv.put(ORDER_NAMESPACE, "absent", "broker-a:4")
        await registration.announce_all()
        assert [topic.name for topic in topics if topic.order] == ["T"]


async def test_a_name_server_that_was_away_hears_everything_in_the_next_round(
    broker: StartBroker, tmp_path: Path
) -> None:
    async with name_server(tmp_path) as namesrv:
        address, port = namesrv.address, int(namesrv.address.rpartition(":")[2])
    async with broker(namesrvAddr=address, registerNameServerPeriod="50"):
        for _ in range(2):
            async with name_server(tmp_path, port=port) as namesrv:
                await told(namesrv, AUTO_CREATE_TOPIC)


@pytest.mark.parametrize(("period_ms", "round_s"), [(1_000, 1), (30_000, 30), (86_400_000, 60)])
async def test_a_broker_registers_before_it_would_be_forgotten(period_ms: int, round_s: int) -> None:
    async with registering(register_name_server_period=period_ms) as (_, registration):
        assert registration.round_s == round_s


async def test_the_address_server_tells_a_broker_where_to_register(broker: StartBroker, tmp_path: Path) -> None:
    async with name_server(tmp_path) as namesrv:

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET /rocketmq/nsaddr ")
            writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + namesrv.address.encode())
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            domain = "{}:{}".format(*server.sockets[0].getsockname())
            keys = {"fetchNamesrvAddrByAddressServer": "true", "rocketmq.namesrv.domain": domain}
            async with broker(**keys) as (running, _):
                route = namesrv.table.route(AUTO_CREATE_TOPIC)
                assert route is not None and route.brokers[0].addrs == {0: running.address}
