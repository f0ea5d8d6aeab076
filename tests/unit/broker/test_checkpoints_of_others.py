"""Checkpoints of pop that an acting slave sent to another broker: what they name is read from where it is."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.unit.broker.group_kit import ACTING, SLAVE, A, B, Group, bodies, count, group, make_topic, said, send, until

from cometmq.broker.pop import retry_messages
from cometmq.broker.pop.checkpoint import CheckPoint
from cometmq.model import properties
from cometmq.wire import fastjson
from cometmq.wire.requests.admin import CreateGroup, CreateTopic, DeleteTopicInBroker
from cometmq.wire.requests.send import SendMessageV2

RETRY = "%RETRY%g_T"
QUICK = {"reviveQueueNum": "1", "reviveInterval": "100"}


@pytest.fixture(autouse=True)
def again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry_messages, "PUT_AGAIN_AFTER_S", (1,))


async def both_with_messages(brokers: Group, *more: str) -> None:
    for name in (A, *more, B):
        await brokers.start(name)
    await make_topic(brokers, A, B)
    await brokers.ask(B, CreateGroup(), fastjson.dumps({"groupName": "g"}))
    for number in range(4):
        await send(brokers, A, b"a%d" % number)
        await send(brokers, B, b"b%d" % number)


async def hand_over(brokers: Group, offsets: list[int], broker_name: Any = A, topic: str = "T") -> None:
    """What an acting slave of 5.5.0 sends of a pop that nobody acknowledged."""
    now_ms = time.time_ns() // 10**6
    point = CheckPoint(topic, "g", 0, offsets[0], now_ms - 3_000, 1_000, A, [one - offsets[0] for one in offsets])
    body = orjson.dumps(orjson.loads(point.to_body()) | {"bn": broker_name})
    found = {"UNIQ_KEY": point.unique_id, "TAGS": "ck", "TIMER_DELIVER_MS": str(now_ms + 100)}
    text = properties.render(found)
    revive = "rmq_sys_REVIVE_LOG_DefaultCluster"
    await brokers.ask(B, SendMessageV2("InnerProducerGroup", revive, "TBW102", 8, 0, 0, now_ms, 0, text), body)


async def revived(brokers: Group, *wanted: bytes) -> None:
    async def are_there() -> bool:
        return len(await bodies(brokers, B, RETRY)) >= len(wanted)

    await until(are_there, f"{wanted} came back")
    assert await bodies(brokers, B, RETRY) == list(wanted)


async def test_they_are_read_from_their_master_else_from_its_slave_and_else_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with group(tmp_path, **ACTING, **QUICK) as brokers:
        await both_with_messages(brokers, SLAVE)

        async def copied() -> bool:
            return await count(brokers, SLAVE) == 4

        await until(copied, "the slave has them")
        await hand_over(brokers, [0, 2])
        await revived(brokers, b"a0", b"a2")
        await brokers.stop(A)
        await hand_over(brokers, [1])
        await revived(brokers, b"a0", b"a2", b"a1")
        await brokers.stop(SLAVE)
        await hand_over(brokers, [3])
        await said(caplog, "1 message(s) from 3 on are not revived yet")
        await brokers.start(A)
        await revived(brokers, b"a0", b"a2", b"a1", b"a3")


@pytest.mark.parametrize("name", ["broker-z", "../broker-a", 7])
async def test_of_a_broker_that_nobody_knows_nothing_is_read_here(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: Any
) -> None:
    async with group(tmp_path, **QUICK) as brokers:
        await both_with_messages(brokers)
        await hand_over(brokers, [0, 1], name)
        await said(caplog, f"no name server knows a broker {name} that has the topic T")
        await hand_over(brokers, [1], B)
        await hand_over(brokers, [2], None)
        await revived(brokers, b"b1", b"b2")


async def test_what_its_broker_has_deleted_is_gone_and_a_topic_that_is_not_here_is_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with group(tmp_path, **QUICK) as brokers:
        await both_with_messages(brokers)
        await brokers.ask(A, CreateTopic("U", 1, 1, 6, "SINGLE_TAG"))
        await send(brokers, A, b"u0", "U")
        await hand_over(brokers, [0], topic="U")
        await said(caplog, "its topic or the group g is not here")
        assert await count(brokers, B, "%RETRY%g_U") == 0
        await brokers.ask(B, CreateTopic("U", 1, 1, 6, "SINGLE_TAG"))
        await until(lambda: has_one(brokers, "%RETRY%g_U"), "it came back once the topic was there")
        await brokers.ask(A, DeleteTopicInBroker("T"))
        await hand_over(brokers, [0, 99])
        await said(caplog, "message 0 is gone, not revived")
        await hand_over(brokers, [3], B)
        await revived(brokers, b"b3")


async def has_one(brokers: Group, topic: str) -> bool:
    return await count(brokers, B, topic) == 1
