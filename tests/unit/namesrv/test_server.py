"""The NameServer over real sockets."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.namesrv.registering import MASTER, FakeClock, body

from cometmq.clock import Clock
from cometmq.errors import ConfigError, PeerRefused
from cometmq.namesrv.app import NameServer, load
from cometmq.namesrv.config import NamesrvConfig
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.net.routes import Routes
from cometmq.net.server import Server, bind
from cometmq.wire.bodies.cluster import decode_cluster_info, decode_member_group
from cometmq.wire.bodies.kv import decode_kv_table
from cometmq.wire.bodies.registration import encode_registration
from cometmq.wire.bodies.route import decode_route
from cometmq.wire.bodies.topics import decode_topic_list
from cometmq.wire.codes import RequestCode, SerializeType
from cometmq.wire.command import Command
from cometmq.wire.requests import namesrv as ask

pytestmark = pytest.mark.timeout(30)

IDENTITY: dict[str, Any] = {
    "broker_name": "a",
    "broker_addr": MASTER.addr,
    "cluster_name": "C",
    "ha_server_addr": "10.0.0.1:10912",
    "broker_id": 0,
}
TABLE = encode_registration(body("T"))


@asynccontextmanager
async def serving(
    tmp_path: Path, clock: Clock | None = None, **changed: Any
) -> AsyncIterator[tuple[NameServer, Channel]]:
    paths = {"kv_config_path": str(tmp_path / "kv.json"), "config_store_path": str(tmp_path / "namesrv.conf")}
    server = NameServer(NamesrvConfig(**{"listen_port": 0, **paths, **changed}), clock=clock)
    await server.start()
    channel = await connect(server.address)
    try:
        yield server, channel
    finally:
        channel.close()
        await server.stop()


async def refused(channel: Channel, request: Any, data: bytes = b"") -> tuple[int, str]:
    with pytest.raises(PeerRefused) as answer:
        await channel.call(request, data)
    return answer.value.code, answer.value.remark


async def test_a_broker_registers_and_a_client_finds_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, channel):
        answer = await channel.call(ask.RegisterBroker(**IDENTITY, body_crc32=zlib.crc32(TABLE) & 0x7FFFFFFF), TABLE)
        assert (answer.ext, bytes(answer.body)) == ({}, b"")
        route = decode_route((await channel.call(ask.GetRouteInfo("T"))).body)
        assert route.brokers[0].addrs == {0: MASTER.addr}
        assert decode_topic_list((await channel.call(ask.GetAllTopicList())).body) == ["T", "x"]
        assert decode_topic_list((await channel.call(ask.GetTopicsByCluster("C"))).body) == ["T", "x"]
        assert decode_topic_list((await channel.call(ask.GetSystemTopicList())).body) == ["C", "a"]
        assert decode_cluster_info((await channel.call(ask.GetClusterInfo())).body).clusters == {"C": ["a"]}
        members = decode_member_group((await channel.call(ask.GetBrokerMemberGroup("C", "a"))).body)
        assert members.addrs == {0: MASTER.addr}


async def test_a_compressed_registration_is_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, channel):
        data = encode_registration(body("T"), compressed=True)
        await channel.call(ask.RegisterBroker(**IDENTITY, compressed=True), data)
        assert server.table.route("T") is not None


async def test_json_is_strict_for_those_who_can_read_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, channel):
        await channel.call(ask.RegisterBroker(**IDENTITY), TABLE)
        code = RequestCode.GET_ROUTEINFO_BY_TOPIC

        async def route(version: int, **ext: str) -> bytes:
            return bytes((await channel.exchange(Command(code, ext={"topic": "T", **ext}, version=version))).body)

        assert b'{"0":"10.0.0.1:10911"}' in await route(401)
        assert b'{0:"10.0.0.1:10911"}' in await route(400)
        assert b'{"0":"10.0.0.1:10911"}' in await route(400, acceptStandardJsonOnly="true")
        assert b'"queueDatas":[]' in await route(401, __ZONE_MODE="true", __ZONE_NAME="elsewhere")


async def test_a_peer_is_answered_in_its_header_form(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, channel):
        request = ask.GetClusterInfo().command()
        request.serialize = SerializeType.ROCKETMQ
        assert (await channel.exchange(request)).serialize == SerializeType.ROCKETMQ


async def test_what_is_not_there_is_answered_with_javas_code(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, channel):
        code, remark = await refused(channel, ask.GetRouteInfo("nowhere"))
        assert code == 17 and remark.startswith("No topic route info in name server for the topic: nowhere\nSee ")
        assert (await refused(channel, ask.GetRouteInfo()))[0] == 17
        assert (await refused(channel, ask.GetKvConfig("n", "k")))[0] == 22
        assert (await refused(channel, ask.GetKvListByNamespace("n")))[0] == 22
        unknown = await channel.exchange(Command(9999))
        assert (unknown.code, unknown.remark) == (3, " request type 9999 not supported")


async def test_bad_requests_are_refused_and_the_connection_goes_on(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, channel):
        register = ask.RegisterBroker(**IDENTITY)
        assert (await refused(channel, register, b"{nonsense"))[0] == 1
        assert (await refused(channel, register, b"[]"))[0] == 1
        assert await refused(channel, ask.RegisterBroker(**IDENTITY, body_crc32=5), TABLE) == (1, "crc32 not match")
        assert (await refused(channel, ask.RegisterBroker(**IDENTITY, compressed=True), TABLE))[0] == 1
        assert (await channel.exchange(Command(RequestCode.REGISTER_BROKER, ext={"brokerId": "x"}))).code == 1
        assert (await channel.exchange(Command(RequestCode.BROKER_HEARTBEAT))).code == 1
        assert (await refused(channel, ask.QueryDataVersion(MASTER.addr, "C"), b"zzz"))[0] == 1
        assert (await refused(channel, ask.RegisterTopicInNamesrv("T"), b"zz"))[0] == 1
        assert (await refused(channel, ask.PutKvConfig("n", None, "v")))[0] == 1
        assert not server.table.brokers
        await channel.call(register, TABLE)


@pytest.mark.parametrize("missing", ["broker_name", "broker_addr", "cluster_name"])
async def test_what_java_survives_has_no_effect(tmp_path: Path, missing: str) -> None:
    async with serving(tmp_path) as (server, channel):
        identity = {key: value for key, value in IDENTITY.items() if key != missing}
        await channel.call(ask.RegisterBroker(**identity), TABLE)
        assert not server.table.brokers
        await channel.call(ask.RegisterBroker(**IDENTITY), TABLE)
        identity.pop("ha_server_addr")
        await channel.call(ask.UnregisterBroker(**identity))
        await channel.call(ask.UnregisterBroker())
        assert server.table.brokers


async def test_a_broker_leaves_when_it_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, channel):
        await channel.call(ask.RegisterBroker(**IDENTITY), TABLE)
        await channel.call(ask.UnregisterBroker("a", MASTER.addr, "C", 0))
        assert (await refused(channel, ask.GetRouteInfo("T")))[0] == 17


async def test_a_broker_leaves_when_its_connection_is_lost(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, channel):
        broker = await connect(server.address)
        await broker.call(ask.RegisterBroker(**IDENTITY), TABLE)
        await channel.call(ask.GetRouteInfo("T"))
        broker.close()
        async with asyncio.timeout(5):
            while server.table.brokers:  # noqa: ASYNC110 (the table is pure state, it has no event)
                await asyncio.sleep(0)
        assert (await refused(channel, ask.GetRouteInfo("T")))[0] == 17


async def test_a_broker_leaves_when_it_is_silent(tmp_path: Path) -> None:
    clock = FakeClock()
    async with serving(tmp_path, clock, scan_not_active_broker_interval=100) as (server, channel):
        broker = await connect(server.address)
        await broker.call(ask.RegisterBroker(**IDENTITY), TABLE)
        clock.ms += 119_000
        await broker.call(ask.BrokerHeartbeat("C", MASTER.addr))
        clock.ms += 119_000
        version = await broker.call(ask.QueryDataVersion(MASTER.addr, "C"), b'{"counter":1,"timestamp":1}')
        assert version.ext == {"changed": "false"}
        clock.ms += 120_000
        server.expire()
        assert server.table.brokers
        clock.ms += 1
        async with asyncio.timeout(5):
            await broker.closed  # the scan closes it
        assert (await refused(channel, ask.GetRouteInfo("T")))[0] == 17


async def test_values_persist_and_reach_brokers_and_clients(tmp_path: Path) -> None:
    async with serving(tmp_path, order_message_enable=True) as (_, channel):
        await channel.call(ask.PutKvConfig("ORDER_TOPIC_CONFIG", "T", "a:4"))
    async with serving(tmp_path, order_message_enable=True) as (_, channel):
        assert (await channel.call(ask.GetKvConfig("ORDER_TOPIC_CONFIG", "T"))).ext == {"value": "a:4"}
        answer = await channel.call(ask.RegisterBroker(**IDENTITY), TABLE)
        assert decode_kv_table(answer.body) == {"T": "a:4"}
        assert decode_route((await channel.call(ask.GetRouteInfo("T"))).body).order_conf == "a:4"
        await channel.call(ask.DeleteKvConfig("ORDER_TOPIC_CONFIG", "T"))
        assert decode_route((await channel.call(ask.GetRouteInfo("T"))).body).order_conf is None


async def test_tools_change_topics_and_permissions(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, channel):
        await channel.call(ask.RegisterBroker(**IDENTITY), TABLE)
        assert (await channel.call(ask.WipeWritePerm("a"))).ext == {"wipeTopicCount": "2"}
        assert (await channel.call(ask.AddWritePerm("a"))).ext == {"addTopicCount": "2"}
        queues = b'{"queueDatas":[{"brokerName":"a","readQueueNums":1,"writeQueueNums":1,"perm":6}]}'
        await channel.call(ask.RegisterTopicInNamesrv("N"), queues)
        await channel.call(ask.GetRouteInfo("N"))
        await channel.call(ask.DeleteTopicInNamesrv("N"))
        assert (await refused(channel, ask.GetRouteInfo("N")))[0] == 17


async def test_settings_are_shown_and_changed(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, channel):
        assert b"enableTopicList=true\n" in bytes((await channel.call(ask.GetNamesrvConfig())).body)
        await channel.call(ask.UpdateNamesrvConfig())
        await channel.call(ask.UpdateNamesrvConfig(), b"enableTopicList=false\nenableAllTopicList=false")
        for request in (ask.GetUnitTopicList(), ask.GetTopicsByCluster("C"), ask.GetAllTopicList()):
            assert await refused(channel, request) == (1, "disable")
        assert (await refused(channel, ask.UpdateNamesrvConfig(), b"kvConfigPath=/x"))[0] == 16
        assert (await refused(channel, ask.UpdateNamesrvConfig(), b"\xff"))[0] == 1


async def test_routes_wait_until_brokers_had_time_to_register(tmp_path: Path) -> None:
    clock = FakeClock()
    async with serving(tmp_path, clock, need_wait_for_service=True) as (_, channel):
        await channel.call(ask.RegisterBroker(**IDENTITY), TABLE)
        assert await refused(channel, ask.GetRouteInfo("T")) == (1, "name server not ready")
        clock.ms += 45_000
        await channel.call(ask.GetRouteInfo("T"))


async def test_members_are_told_of_a_new_smallest_id(tmp_path: Path) -> None:
    told: asyncio.Queue[Command] = asyncio.Queue()
    slave = Server(lambda _, command: told.put_nowait(command))
    sock = bind("127.0.0.1", 0)
    slave_addr = f"127.0.0.1:{sock.getsockname()[1]}"
    await slave.listen(sock)
    async with serving(tmp_path, notify_min_broker_id_changed=True) as (_, channel):
        second = {**IDENTITY, "broker_id": 1, "broker_addr": slave_addr}
        for identity in (IDENTITY, second):
            await channel.call(ask.RegisterBroker(**identity, enable_acting_master=True), TABLE)
        await channel.call(ask.UnregisterBroker("a", MASTER.addr, "C", 0))
        async with asyncio.timeout(5):
            notice = await told.get()
        assert notice.code == RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE and notice.is_one_way
        assert notice.ext == {"minBrokerId": "1", "minBrokerAddr": slave_addr, "offlineBrokerAddr": MASTER.addr}
    await slave.close()


async def test_two_name_servers_know_nothing_of_each_other(tmp_path: Path) -> None:
    async with serving(tmp_path / "1") as (_, first), serving(tmp_path / "2") as (_, second):
        await first.call(ask.RegisterBroker(**IDENTITY), TABLE)
        assert (await refused(second, ask.GetRouteInfo("T")))[0] == 17


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    async with serving(tmp_path) as (server, _):
        port = int(server.address.rpartition(":")[2])
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}"):
            async with serving(tmp_path, listen_port=port):
                pass


def test_unknown_keys_are_warned_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def make() -> None:
        load({"listenProt": "0"}, str(tmp_path / "namesrv.conf"))

    asyncio.run(make())
    assert "did you mean listenPort?" in caplog.text


async def test_every_code_of_a_name_server_is_answered(tmp_path: Path) -> None:
    routes = NameServer(NamesrvConfig(kv_config_path=str(tmp_path / "kv")))._routes
    assert isinstance(routes, Routes)
    listed = "100 101 102 103 104 105 106 205 206 216 217 219 224 304 311 312 313 318 319 322 327 901 904"
    assert routes.codes == {int(code) for code in listed.split()}
