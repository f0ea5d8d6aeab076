"""What operators ask of a push consumer through a broker: how far, how it runs, go elsewhere, take this message."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.sdk.conftest import Server
from tests.sdk.push_kit import Heard, consuming, new, producing, send, until

from cometmq import ReceivedMessage
from cometmq.wire import fastjson
from cometmq.wire.bodies.offsets import decode_queue_offsets
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.clients import ConsumeMessageDirectly, GetConsumerRunningInfo
from cometmq.wire.requests.consume import ResetOffset


async def test_moved_back(server: Server) -> None:
    topic, group, heard = new(), new("group"), Heard()

    def times(offset: int) -> int:
        # Of sends that are under way together the original may store the later first: bodies do not tell offsets.
        return sum(message.queue_offset == offset for message in heard.messages)

    async with producing(server, topic, 1) as producer, consuming(server, group, topic, heard) as consumer:
        await send(producer, topic, range(20))
        await until(lambda: len(heard.messages) == 20)
        answer = await producer.instance.call("broker-a", ResetOffset(topic, 1, True, group))
        (queue,) = moved = decode_queue_offsets(answer.body)
        assert moved == {queue: 0}
        await send(producer, topic, [20])  # a broker that moves groups by itself tells it with the next answer
        await until(
            lambda: all(times(offset) >= 2 for offset in range(20)) and times(20) >= 1,
            within_s=90,  # the original tells a pull that waits only when it ends, 20 s later
        )
        await until(lambda: consumer.consumed_offsets(topic) == {queue: 21})
        await consumer.reset_offsets(topic, {queue: 18, queue._replace(queue_id=7): 0})  # one that tells its clients
        await until(lambda: min(times(18), times(19)) >= 3 and times(20) >= 2)
        await until(lambda: consumer.consumed_offsets(topic) == {queue: 21})
    assert times(17) < times(18)


async def test_running_info(server: Server) -> None:
    topic, group, heard = new(), new("group"), Heard()
    async with producing(server, topic, 2) as producer, consuming(server, group, topic, heard, tags="a") as consumer:
        await send(producer, topic, range(4), tags="a")
        # With that of the retry topic, which a broker makes when it first hears of the group.
        await until(lambda: len(heard.messages) == 4 and len(consumer.queues) == 3)
        request = GetConsumerRunningInfo(group, consumer.instance.client_id, True)
        answer = await producer.instance.exchange("broker-a", request)
        assert answer.code == ResponseCode.SUCCESS
        # The keys of the table are objects, which only fastjson reads.
        text = re.sub(
            r'(\{"brokerName"[^}]*\}):', lambda found: json.dumps(found[1]) + ":", bytes(answer.body).decode()
        )
        info: dict[str, Any] = fastjson.loads(text.encode())
        assert info["properties"]["PROP_CONSUMEORDERLY"] == "false"
        assert {item["topic"]: item["subString"] for item in info["subscriptionSet"]}[topic] == "a"
        assert len(info["mqTable"]) == 3
        assert "test_push_operators" in info["jstack"] or "MainThread" in info["jstack"]


async def test_consume_directly(server: Server) -> None:
    topic, group = new(), new("group")
    heard: list[bytes] = []

    async def hear(message: ReceivedMessage) -> None:
        heard.append(message.body)
        if message.body == b"1" and len(heard) > 2:
            raise ValueError("not again")

    async with producing(server, topic, 1) as producer, consuming(server, group, topic, hear) as consumer:
        await send(producer, topic, range(2))
        await until(lambda: len(heard) == 2)
        results = []
        for message in await server.read(topic, 2):
            request = ConsumeMessageDirectly(
                group, consumer.instance.client_id, message.offset_message_id, "broker-a", topic
            )
            answer = await producer.instance.exchange("broker-a", request)
            results.append(fastjson.loads(answer.body)["consumeResult"])
        assert sorted(results) == ["CR_SUCCESS", "CR_THROW_EXCEPTION"]
        assert sorted(heard) == [b"0", b"0", b"1", b"1"]
