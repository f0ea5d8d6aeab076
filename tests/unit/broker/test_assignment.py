"""Assignment by the broker: every queue falls to somebody, modes survive, and routes come from the name servers."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import StartBroker
from tests.unit.broker.state_kit import MemoryTable, StillClock, file_table

from cometmq.broker.app import load_settings
from cometmq.broker.assignment import topic_queues
from cometmq.broker.assignment.modes import RequestModes
from cometmq.broker.assignment.strategies import ALL_QUEUES, STRATEGIES, divide, divide_for_pop
from cometmq.broker.assignment.topic_queues import TopicQueues
from cometmq.errors import ConfigError, PeerRefused
from cometmq.model.data_version import DataVersion
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import SubscriptionData
from cometmq.model.topic import TopicConfig
from cometmq.namesrv.app import NameServer
from cometmq.namesrv.config import NamesrvConfig
from cometmq.net.channel import Channel
from cometmq.net.name_servers import NameServers
from cometmq.net.pool import connect
from cometmq.wire.bodies.assignment import (
    POP,
    AssignmentQuery,
    RequestMode,
    decode_assignment,
    decode_request_mode,
)
from cometmq.wire.bodies.heartbeat import ConsumerData, HeartbeatData
from cometmq.wire.bodies.registration import Registration, encode_registration
from cometmq.wire.requests.admin import CreateTopic
from cometmq.wire.requests.members import GetAllMessageRequestMode, HeartBeat, QueryAssignment, SetMessageRequestMode
from cometmq.wire.requests.namesrv import RegisterBroker

JAVA_FILE = """{
\t"messageRequestModeMap":{
\t\t"T":{
\t\t\t"G":{
\t\t\t\t"consumerGroup":"G",
\t\t\t\t"mode":"POP",
\t\t\t\t"popShareQueueNum":3,
\t\t\t\t"topic":"T"
\t\t\t}
\t\t}
\t}
}"""


def queues(count: int) -> list[MessageQueue]:
    return [MessageQueue("t", "b", number) for number in range(count)]


def clients(count: int) -> list[str]:
    return [f"c{number:03}" for number in range(count)]


def numbers(found: Iterable[MessageQueue] | None) -> list[int]:
    return [queue.queue_id for queue in found or ()]


@given(st.sampled_from(list(STRATEGIES)), st.integers(1, 40), st.integers(1, 40))
def test_every_queue_falls_to_one_client_and_evenly(name: str, queue_count: int, client_count: int) -> None:
    names = clients(client_count)
    parts = [numbers(divide(STRATEGIES[name], one, queues(queue_count), names)) for one in names]
    assert sorted(number for part in parts for number in part) == list(range(queue_count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@given(
    st.sampled_from(list(STRATEGIES)),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(-1, 20),
)
def test_everybody_who_pops_has_work_and_every_queue_somebody(
    name: str, queue_count: int, client_count: int, share: int
) -> None:
    names = clients(client_count)
    parts = [numbers(divide_for_pop(STRATEGIES[name], one, queues(queue_count), names, share)) for one in names]
    assert all(parts)
    assert {ALL_QUEUES} in map(set, parts) or {n for part in parts for n in part} == set(range(queue_count))


def test_five_queues_for_two() -> None:
    assert [numbers(divide(STRATEGIES["AVG"], one, queues(5), clients(2))) for one in clients(2)] == [[0, 1, 2], [3, 4]]
    circle = STRATEGIES["AVG_BY_CIRCLE"]
    assert [numbers(divide(circle, one, queues(5), clients(2))) for one in clients(2)] == [[0, 2, 4], [1, 3]]


def test_nothing_is_taken_from_who_cannot_be_served() -> None:
    strategy = STRATEGIES["AVG"]
    assert divide(strategy, "c000", [], clients(2)) is None
    assert divide(strategy, "", queues(2), clients(2)) is None
    assert divide(strategy, None, queues(2), clients(2)) is None
    assert divide(strategy, "stranger", queues(2), clients(2)) == []
    assert divide_for_pop(strategy, None, queues(2), clients(5), 1) is None
    assert divide_for_pop(strategy, "stranger", queues(2), clients(5), 1) == []
    assert divide_for_pop(strategy, "stranger", queues(9), clients(5), 1) == []


def test_modes_survive_in_javas_file(tmp_path: Path) -> None:
    path = tmp_path / "messageRequestMode.json"
    path.write_text(JAVA_FILE)
    modes = RequestModes(file_table(path))
    assert modes.get("T", "G") == RequestMode("T", "G", POP, 3)
    assert modes.get("T", "other") is None
    modes.put("T", "H", RequestMode("T", "H"))
    modes.persist()
    assert RequestModes(file_table(path)).to_json() == modes.to_json()
    assert modes.to_json()["messageRequestModeMap"]["T"]["H"] == {
        "consumerGroup": "H",
        "mode": "PULL",
        "popShareQueueNum": 0,
        "topic": "T",
    }


def test_an_unknown_mode_counts_as_none() -> None:
    assert decode_request_mode(b'{"topic":"t"}').mode == "PULL"
    assert decode_request_mode(b'{"topic":"t","mode":"OTHER"}').mode is None
    modes = RequestModes(MemoryTable())
    modes.put("t", "g", decode_request_mode(b'{"topic":"t","mode":null}'))
    assert modes.to_json() == {"messageRequestModeMap": {"t": {"g": {"popShareQueueNum": 0, "topic": "t"}}}}


def test_an_unknown_default_mode_stops_the_start() -> None:
    with pytest.raises(ConfigError, match="defaultMessageRequestMode=PUSH"):
        load_settings({"defaultMessageRequestMode": "PUSH"})


async def assigned(
    channel: Channel, client_id: str, topic: str = "t", **more: str
) -> list[tuple[MessageQueue, str | None]] | None:
    answer = await channel.call(QueryAssignment(), AssignmentQuery(topic, "g", client_id, **more).encode())
    return decode_assignment(answer.body)


async def test_assignments_by_request(broker: StartBroker, tmp_path: Path) -> None:
    namesrv = NameServer(NamesrvConfig(listen_port=0, kv_config_path=str(tmp_path / "kv.json")))
    await namesrv.start()
    try:
        async with broker(namesrvAddr=namesrv.address, brokerName="b") as (_, channel):
            await channel.call(CreateTopic("t", 2, 2, 6, "SINGLE_TAG"))
            beat = HeartbeatData("c", [], [ConsumerData("g", subscriptions=[SubscriptionData("t")])])
            assert await assigned(channel, "c") is None
            await channel.call(HeartBeat(), beat.encode())
            found = await assigned(channel, "c")
            while found is None:  # the name server hears of the topic a moment later
                found = await assigned(channel, "c")
            assert found == [(queue, "PULL") for queue in queues(2)]
            assert await assigned(channel, "stranger") == []
            assert await assigned(channel, "stranger", message_model="BROADCASTING") == found
            assert await assigned(channel, "c", strategy_name="none") is None
            assert await assigned(channel, "c", "absent") is None
            await channel.call(SetMessageRequestMode(), b'{"topic":"t","consumerGroup":"g","mode":"POP"}')
            assert await assigned(channel, "c") == [(MessageQueue("t", "b", ALL_QUEUES), "POP")]
            assert b'"mode":"POP"' in bytes((await channel.call(GetAllMessageRequestMode())).body)
    finally:
        await namesrv.stop()


@pytest.mark.parametrize(
    ("keys", "topic", "wanted"),
    [
        ({"defaultMessageRequestMode": "POP"}, "t", [(MessageQueue("t", "b", ALL_QUEUES), "POP")]),
        ({"defaultMessageRequestMode": "POP"}, "%RETRY%g", [(MessageQueue("%RETRY%g", "b", 0), "PULL")]),
        ({"serverLoadBalancerEnable": "false"}, "t", [(queue, "PULL") for queue in queues(2)]),
    ],
)
async def test_settings_of_assignment(
    broker: StartBroker,
    tmp_path: Path,
    keys: dict[str, str],
    topic: str,
    wanted: list[tuple[MessageQueue, str]],
) -> None:
    namesrv = NameServer(NamesrvConfig(listen_port=0, kv_config_path=str(tmp_path / "kv.json")))
    await namesrv.start()
    try:
        async with broker(namesrvAddr=namesrv.address, brokerName="b", **keys) as (_, channel):
            await channel.call(CreateTopic("t", 2, 2, 6, "SINGLE_TAG"))
            await channel.call(HeartBeat(), HeartbeatData("c", [], [ConsumerData("g")]).encode())
            found = await assigned(channel, "c", topic)
            while found is None:
                found = await assigned(channel, "c", topic)
            assert found == wanted
    finally:
        await namesrv.stop()


@pytest.mark.parametrize("body", [b"", b"7", b"{}", b'{"topic":"t","consumerGroup":7,"mode":7}', b'{"topic":"absent"}'])
async def test_a_mode_for_nothing_is_refused(broker: StartBroker, body: bytes) -> None:
    async with broker() as (_, channel):
        with pytest.raises(PeerRefused):
            await channel.call(SetMessageRequestMode(), body)
        assert bytes((await channel.call(GetAllMessageRequestMode())).body) == b'{"messageRequestModeMap":{}}'


async def register(channel: Channel, topic: TopicConfig) -> None:
    topics = {topic.name: topic, "another": TopicConfig("another")}  # who comes with one only is refused
    version = DataVersion(timestamp_ms=topic.read_queue_nums)
    body = encode_registration(Registration(version, topics), compressed=False)
    request = RegisterBroker(0, "b", "127.0.0.1:1", "c", "127.0.0.1:2", body_crc32=zlib.crc32(body) & 0x7FFFFFFF)
    await channel.call(request, body)


async def test_routes_are_remembered_for_a_while_and_when_nobody_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_queues, "TIMEOUT_MS", 200)
    namesrv = NameServer(NamesrvConfig(listen_port=0, kv_config_path=str(tmp_path / "kv.json")))
    await namesrv.start()
    clock = StillClock()
    found = TopicQueues(NameServers(f"127.0.0.1:1;{namesrv.address}"), clock, 30_000)
    channel = await connect(namesrv.address)
    try:
        assert await found.of("t") is None
        await register(channel, TopicConfig("t", read_queue_nums=2, write_queue_nums=2))
        assert await found.of("t") == queues(2)
        await register(channel, TopicConfig("t", read_queue_nums=3, write_queue_nums=3))
        assert await found.of("t") == queues(2)
        clock.time_ms += 30_000
        assert await found.of("t") == queues(3)
        channel.close()
        await namesrv.stop()
        clock.time_ms += 30_000
        assert await found.of("t") == queues(3)
    finally:
        await found.close()
