"""Sending, in all ways that a program can."""

from __future__ import annotations

import asyncio
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.sdk.conftest import Server

from cometmq import Compression, Decision, Message, Producer, ReceivedMessage, SendStatus
from cometmq.client.sending import Sending
from cometmq.errors import (
    InvalidArgument,
    InvalidMessage,
    PeerRefused,
    RequestTimedOut,
    SendFailed,
)


def new(kind: str = "topic") -> str:
    return f"{kind}-{uuid.uuid4().hex}"


async def test_one(server: Server) -> None:
    topic = new()
    async with Producer("sdk", namesrv=server.namesrv) as producer:
        receipt = await producer.send(
            Message(topic, b"body", tags="created", keys=["a", "b"], properties={"x": 'é\n"%d'}, flag=7)
        )
    assert receipt.status is SendStatus.OK
    (message,) = await server.read(topic)
    assert (message.body, message.tags, message.keys, message.record.flag) == (b"body", "created", ["a", "b"], 7)
    assert message.properties["x"] == 'é\n"%d'
    assert (message.message_id, message.queue) == (receipt.message_id, receipt.queue)
    assert message.offset_message_id == receipt.offset_message_id


async def test_one_way(server: Server) -> None:
    topic = new()
    async with Producer("sdk", namesrv=server.namesrv) as producer:
        await producer.create_topic(topic, queues=2)
        await producer.send_oneway(Message(topic, b"1"))
        await producer.send_oneway(Message(topic, b"2", sharding_key="k"))
    assert {message.body for message in await server.read(topic, 2)} == {b"1", b"2"}


async def test_window(server: Server) -> None:
    topic = new()
    async with Producer("sdk", namesrv=server.namesrv) as producer:
        await producer.create_topic(topic)
        async with producer.pipeline(in_flight=50) as pipeline:
            for number in range(500):
                await pipeline.send(Message(topic, b"%d" % number))
                assert producer.counters["in_flight"] <= 50
        assert [receipt.topic for receipt in pipeline.receipts] == [topic] * 500
        assert len({receipt.message_id for receipt in pipeline.receipts}) == 500
    assert {int(message.body) for message in await server.read(topic, 500)} == set(range(500))


async def test_order_by_key(server: Server) -> None:
    topic = new()
    async with Producer("sdk", namesrv=server.namesrv) as producer:
        await producer.create_topic(topic)
        # The original takes sends in several threads: who wants their order there waits for each.
        async with producer.pipeline(in_flight=1000 if server.kind == "comet" else 1) as pipeline:
            for number in range(60):
                await pipeline.send(Message(topic, b"%d" % number, sharding_key=f"order-{number % 3}"))
        chosen = await producer.send(Message(topic, b"-1"), select=lambda queues: queues[-1])
        assert chosen.queue == (await producer.queues(topic))[-1]
        with pytest.raises(InvalidArgument):
            await producer.send(Message(topic, b"x"), queue=chosen.queue._replace(topic="other"))
    found = await server.read(topic, 61)
    for key in range(3):
        mine = [message for message in found if message.sharding_key == f"order-{key}"]
        assert len({message.queue for message in mine}) == 1
        assert [int(message.body) for message in mine] == list(range(key, 60, 3))


async def test_batches_are_split(server: Server) -> None:
    topic = new()
    async with Producer("sdk", namesrv=server.namesrv) as producer:
        await producer.create_topic(topic, queues=2)
        messages = [Message(topic, b"%05d" % number + b"x" * 20_000, tags="t") for number in range(120)]
        receipts = await producer.send_batch(messages)
        assert len(receipts) == 120
        await producer.send_batch(Message(topic, b"%05d" % number) for number in range(120, 1400))
    found = {message.message_id: message for message in await server.read(topic, 1400)}
    for number, receipt in enumerate(receipts):
        message = found[receipt.message_id]
        assert (int(message.body[:5]), message.queue_offset) == (number, receipt.queue_offset)
        assert (message.tags, message.offset_message_id) == ("t", receipt.offset_message_id)


@pytest.mark.parametrize("bad", [[], ["a", "b"], ["key"]])
async def test_what_is_no_batch(server: Server, bad: list[str]) -> None:
    messages = [Message(topic, b"1", sharding_key=topic if topic == "key" else None) for topic in bad]
    if bad == ["key"]:
        messages.append(Message("key", b"2"))
    async with Producer("sdk", namesrv=server.namesrv) as producer:
        with pytest.raises(InvalidMessage):
            await producer.send_batch(messages)


@pytest.mark.parametrize("kind", list(Compression))
async def test_packed(server: Server, kind: Compression) -> None:
    topic, body = new(), b"comet " * 100_000
    async with Producer("sdk", namesrv=server.namesrv, compression=kind) as producer:
        await producer.send(Message(topic, body))
    (message,) = await server.read(topic)
    assert len(message.record.body) < len(body) // 10
    assert message.body == body


async def test_delays(server: Server) -> None:
    topic = new()
    async with Producer("sdk", namesrv=server.namesrv) as producer:
        await producer.create_topic(topic)
        await producer.send(Message(topic, b"level"), delay=1)
        await producer.send(Message(topic, b"duration"), delay=timedelta(seconds=1.5))
        await producer.send(Message(topic, b"time"), at=datetime.now(UTC) + timedelta(seconds=1.5))
        gone = await producer.send(Message(topic, b"recalled"), delay=timedelta(seconds=4))
        assert gone.recall_handle is not None
        assert await producer.recall(topic, gone.recall_handle) == gone.message_id
        sent = time.time()
        assert await server.read(topic, 0) == []
        found = await server.read(topic, 3)
        assert 0.5 < time.time() - sent < 10
        assert {message.body for message in found} == {b"level", b"duration", b"time"}
        for wrong in (
            {"delay": 0},
            {"delay": timedelta(0)},
            {"delay": True},
            {"at": 5},
            {"delay": 1, "at": datetime.now(UTC)},
        ):
            with pytest.raises(InvalidArgument):
                await producer.send(Message(topic, b"x"), **wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument):
            await producer.recall(topic, "nonsense")


async def test_transactions(server: Server) -> None:
    topic = new()
    asked: list[bytes] = []
    forgotten = asyncio.Event()

    async def check(message: ReceivedMessage) -> Decision:
        asked.append(message.body)
        if message.body == b"forgotten":
            forgotten.set()
        return Decision.COMMIT if message.body in (b"committed", b"executed", b"checked") else Decision.ROLLBACK

    async with Producer(new("group"), namesrv=server.namesrv, checker=check) as producer:
        await producer.create_topic(topic, queues=1)
        async with producer.transaction(Message(topic, b"committed")) as opened:
            assert opened.transaction_id
        with pytest.raises(KeyError):
            async with producer.transaction(Message(topic, b"raised")):
                raise KeyError
        async with producer.transaction(Message(topic, b"rolled back")) as opened:
            opened.rollback()
        receipt, decision = await producer.send_in_transaction(Message(topic, b"executed"), lambda _: Decision.COMMIT)
        assert (receipt.topic, decision) == (topic, Decision.COMMIT)
        await producer.send_in_transaction(Message(topic, b"checked"), lambda _: Decision.UNKNOWN)
        await producer.send_in_transaction(Message(topic, b"forgotten"), lambda _: Decision.UNKNOWN)
        found = await server.read(topic, 3, within_s=60)
        assert [message.body for message in found] == [b"committed", b"executed", b"checked"]
        async with asyncio.timeout(60):
            await forgotten.wait()
        assert {b"checked", b"forgotten"} <= set(asked)  # a broker may ask of the others too, before it noted their end
    async with Producer("sdk", namesrv=server.namesrv) as producer:
        with pytest.raises(InvalidArgument, match="checker"):
            producer.transaction(Message(topic, b"1"))


async def test_request_and_reply(server: Server) -> None:
    topic = new()
    async with (
        Producer(new("asker"), namesrv=server.namesrv, client_id=new("id")) as asker,
        Producer(new("replier"), namesrv=server.namesrv) as replier,
    ):
        await asker.create_topic(topic)
        asking = asyncio.create_task(asker.request(Message(topic, b"what?"), timeout_ms=15_000))
        (message,) = await server.read(topic)
        await replier.reply(message, b"that")
        assert (await asking).body == b"that"
        with pytest.raises(RequestTimedOut):
            await asker.request(Message(topic, b"anyone?"), timeout_ms=300)
        plain = new()
        await replier.send(Message(plain, b"nothing asked"))
        with pytest.raises(InvalidMessage):
            await replier.reply((await server.read(plain))[0], b"that")


async def test_what_a_broker_refuses(server: Server) -> None:
    async with Producer("sdk", namesrv=server.namesrv, max_message_size=8 << 20, compress_over=None) as producer:
        with pytest.raises(SendFailed, match="maxMessageSize") as refused:
            await producer.send(Message(new(), b"x" * (5 << 20)), timeout_ms=10_000)
        assert refused.value.broker == "broker-a"
        with pytest.raises(PeerRefused):
            await producer.create_topic("ok-name", attributes={"+unknown": "x"})


async def test_what_is_refused_before_the_network(server: Server) -> None:
    async with Producer("sdk", namesrv=server.namesrv) as producer:
        before = producer.counters
        with pytest.raises(InvalidMessage, match="limit"):
            await producer.send(Message(new(), b"x" * (4 * 1024 * 1024 + 1)))
        with pytest.raises(InvalidMessage, match="properties"):
            await producer.send(Message(new(), b"x", properties={"a": "é" * 20_000}))
        with pytest.raises(InvalidMessage, match="system"):
            await producer.send(Message("SCHEDULE_TOPIC_XXXX", b"x"))
        with pytest.raises(InvalidArgument, match="time zone"):
            await producer.send(Message(new(), b"x"), at=datetime.now())  # noqa: DTZ005
        with pytest.raises(InvalidArgument, match="None is no queue"):
            await producer.send(Message(new(), b"x"), select=lambda queues: None)  # type: ignore[arg-type,return-value]
        body: Any = b"a body alone"
        for send in (producer.send, producer.send_oneway, producer.request):
            with pytest.raises(InvalidMessage, match="a Message is sent, not bytes"):
                await send(body)
        with pytest.raises(InvalidMessage, match="a Message is sent, not bytes"):
            await producer.send_batch([Message("t", b"x"), body])
        with pytest.raises(InvalidMessage, match="a Message is sent, not bytes"):
            async with producer.pipeline() as pipeline:
                await pipeline.send(body)
        assert producer.counters == before


async def test_hooks(server: Server) -> None:
    topic = new()
    ended: list[object] = []

    class Hook:
        def sending(self, message: Message, unique_key: str) -> dict[str, str]:
            return {"traceparent": f"of {message.body!r}"}

        def sent(self, sending: Sending, with_what: object) -> None:
            ended.append(with_what)

        def transaction_ended(self, end: object) -> None:
            ended.append(end)

    async with Producer("sdk", namesrv=server.namesrv) as producer:
        producer.add_hook(Hook())
        receipt = await producer.send(Message(topic, b"1"))
        await producer.send_batch([Message(topic, b"2"), Message(topic, b"3")])
    assert ended[0] == receipt
    assert len(ended) == 2
    found = await server.read(topic, 3)
    assert {message.properties["traceparent"] for message in found} == {"of b'1'", "of b'2'", "of b'3'"}
