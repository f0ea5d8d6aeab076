"""What brokers ask of a client, asked over a real connection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from cometmq.client.inbound import Inbound
from cometmq.client.message import ReceivedMessage
from cometmq.errors import PeerRefused
from cometmq.model.queue import MessageQueue
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.net.routes import Routes
from cometmq.net.server import Server, bind
from cometmq.wire.bodies.heartbeat import ConsumerData
from cometmq.wire.bodies.offsets import decode_queue_offsets, encode_queue_offsets
from cometmq.wire.record import encode_record, pack_host
from cometmq.wire.requests.clients import ConsumeMessageDirectly, GetConsumerRunningInfo, GetConsumerStatus
from cometmq.wire.requests.consume import ResetOffsetInClient
from cometmq.wire.requests.members import NotifyConsumerIdsChanged
from cometmq.wire.requests.send import PushReplyMessage
from cometmq.wire.requests.transaction import CheckTransactionState

QUEUE = MessageQueue("orders", "broker-a", 3)
HOST = pack_host("127.0.0.1", 1)


class Consumer:
    group = "g"

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def consumer_data(self) -> ConsumerData:
        return ConsumerData("g")

    def members_changed(self) -> None:
        self.heard.append("members")

    def route_changed(self, topic: str) -> None: ...

    async def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        self.heard.append((topic, offsets))

    def consumed_offsets(self, topic: str) -> Mapping[MessageQueue, int]:
        return {QUEUE: 42}

    def running_info(self) -> dict[str, Any]:
        return {"properties": {"x": "y"}}

    async def consume_directly(self, message: ReceivedMessage) -> dict[str, Any]:
        return {"consumeResult": "CR_SUCCESS", "remark": message.body.decode()}


class Producer:
    group = "p"
    checks_transactions = True

    def __init__(self) -> None:
        self.checked: asyncio.Queue[str] = asyncio.Queue()

    async def check_transaction(self, request: CheckTransactionState, message: ReceivedMessage, asker: Channel) -> None:
        await self.checked.put(message.message_id)


def record(text: str = "") -> bytes:
    return encode_record(
        topic=b"orders", queue_id=0, flag=0, queue_offset=0, physical_offset=0, sys_flag=0, born_time_ms=0,
        born_host=HOST, store_time_ms=0, store_host=HOST, body=b"body", properties_data=text.encode(),
    )  # fmt: skip


class Client:
    """A client's end, and the channel of a broker to it."""

    def __init__(self) -> None:
        self.consumer, self.producer = Consumer(), Producer()
        self.replies: dict[str, asyncio.Future[ReceivedMessage]] = {}
        self._routes = Routes()
        self._routes.add(
            Inbound({"g": self.consumer}, {"p": [self.producer]}, self.replies, lambda address: "broker-a")
        )

    async def __aenter__(self) -> Client:
        self._server = Server(self._routes.answer)
        sock = bind("127.0.0.1", 0)
        await self._server.listen(sock)
        self.broker = await connect(f"127.0.0.1:{sock.getsockname()[1]}")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.broker.close()
        await self._server.close()
        await self._routes.close()


async def test_what_a_consumer_hears() -> None:
    async with Client() as client:
        broker = client.broker
        await broker.call(NotifyConsumerIdsChanged("g"))
        await broker.call(NotifyConsumerIdsChanged("other"))
        await broker.call(ResetOffsetInClient("g", "orders", 0), encode_queue_offsets({QUEUE: 7}))
        assert client.consumer.heard == ["members", ("orders", {QUEUE: 7})]
        assert decode_queue_offsets((await broker.call(GetConsumerStatus("orders", "g"))).body) == {QUEUE: 42}
        assert decode_queue_offsets((await broker.call(GetConsumerStatus("orders", "other"))).body) == {}
        info = orjson.loads((await broker.call(GetConsumerRunningInfo("g", "id"))).body)
        assert info == {"properties": {"x": "y"}}
        stacks = orjson.loads((await broker.call(GetConsumerRunningInfo("g", "id", jstack_enable=True))).body)
        assert "MainThread" in stacks["jstack"]
        result = orjson.loads((await broker.call(ConsumeMessageDirectly("g"), record())).body)
        assert result == {"consumeResult": "CR_SUCCESS", "remark": "body"}
        for request in (GetConsumerRunningInfo("other", "id"), ConsumeMessageDirectly("other")):
            with pytest.raises(PeerRefused, match="not exist in this consumer"):
                await broker.call(request, record())
        with pytest.raises(PeerRefused):
            await broker.call(ConsumeMessageDirectly("g"), b"garbage")


async def test_transactions_are_brought_to_the_group() -> None:
    async with Client() as client:
        request = CheckTransactionState(1, 2, "orders", "m", "t", "o")
        client.broker.notify(request, b"garbage")
        client.broker.notify(request, record("PGROUP\x01other\x02"))
        client.broker.notify(request, record("PGROUP\x01p\x02UNIQ_KEY\x01U\x02"))
        async with asyncio.timeout(5):
            assert await client.producer.checked.get() == "U"


async def test_replies_find_who_asked() -> None:
    async with Client() as client:

        def push(correlation_id: str) -> PushReplyMessage:
            text = f"CORRELATION_ID\x01{correlation_id}\x02"
            return PushReplyMessage("g", "t", "d", 4, 0, 0, 0, 0, text, 0, False, "127.0.0.1:5", "odd", 0)

        waiting = client.replies["1"] = asyncio.get_running_loop().create_future()
        await client.broker.call(push("unknown"), b"x")
        await client.broker.call(push("1"), b"reply")
        await client.broker.call(push("1"), b"again")
        message = await waiting
        assert (message.body, message.born_host) == (b"reply", "127.0.0.1:5")
