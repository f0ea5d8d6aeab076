"""`@consumer`, and running what it makes."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any

import pytest
from tests.sdk.conftest import Server
from tests.sdk.push_kit import new, producing, send, until

import cometmq
from cometmq import ReceivedMessage, consumer
from cometmq.client.consumer_functions import run_all
from cometmq.errors import InvalidArgument


async def test_functions_share_a_group(server: Server) -> None:
    orders, parcels, group = new(), new(), new("group")
    heard: list[tuple[str, int]] = []

    @consumer(orders, group=group, tags="created || paid", start_from="first")
    async def bill(message: ReceivedMessage) -> None:
        """Send a bill."""
        heard.append(("bill", int(message.body)))

    @consumer(parcels, group=group, start_from="first")
    def ship(message: ReceivedMessage) -> None:
        heard.append(("ship", int(message.body)))

    assert (bill.__name__, bill.__doc__, bill.group) == ("bill", "Send a bill.", group)
    async with producing(server, orders) as producer:
        await producer.create_topic(parcels)
        await send(producer, orders, [1], tags="paid")
        await send(producer, orders, [2], tags="lost")
        await send(producer, parcels, [3])
        running = asyncio.create_task(run_all([bill, ship], server.namesrv))
        await until(lambda: len(heard) == 2)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await send(producer, orders, [4], tags="paid")
        async with bill.consuming(namesrv=server.namesrv) as running_consumer:
            await until(lambda: ("bill", 4) in heard)
            assert running_consumer.group == group
    assert sorted(heard) == [("bill", 1), ("bill", 4), ("ship", 3)]


async def test_called_as_before() -> None:
    @consumer("orders", group="billing")
    async def bill(text: str) -> str:
        return text.upper()

    assert await bill("paid") == "PAID"


def test_a_program_ends_with_sigterm(server: Server) -> None:
    topic = new()
    heard = threading.Event()

    @consumer(topic, group=new("group"), start_from="first")
    def hear(message: ReceivedMessage) -> None:
        heard.set()
        os.kill(os.getpid(), signal.SIGTERM)

    async def prepare() -> None:
        async with producing(server, topic) as producer:
            await send(producer, topic, [1])

    asyncio.run(prepare())
    cometmq.run(hear, namesrv=server.namesrv)
    assert heard.is_set()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_what_cannot_be_run() -> None:
    def make(topic: str = "orders", **options: Any) -> Any:
        return consumer(topic, group="billing", **options)(print)

    with pytest.raises(InvalidArgument, match="nothing"):
        cometmq.run(namesrv="127.0.0.1:9876")
    with pytest.raises(InvalidArgument, match="@consumer"):
        cometmq.run(print, namesrv="127.0.0.1:9876")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="one of them"):
        cometmq.run(make(), make(), namesrv="127.0.0.1:9876")
    with pytest.raises(InvalidArgument, match="options"):
        cometmq.run(make(), make("parcels", orderly=True), namesrv="127.0.0.1:9876")
    for wrong in ({"topic": "a b"}, {"tags": "a|b"}, {"batch": 0}, {"concurrency": 0}):
        with pytest.raises(InvalidArgument):
            make(**wrong)
    with pytest.raises(TypeError, match="concurency"):
        make(concurency=1)
