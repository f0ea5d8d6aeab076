"""Any event loop, and notebooks: each cell is a task of its own, and a client outlives the cell that opened it."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest

from cometmq import LitePullConsumer, Message, Producer, PushConsumer, ReceivedMessage, SimpleConsumer
from cometmq.testing.pytest_plugin import RunningCluster

COUNT = 20


def loops() -> list[Any]:
    try:
        import uvloop
    except ImportError:
        return [pytest.param(asyncio.new_event_loop, id="asyncio")]
    return [pytest.param(asyncio.new_event_loop, id="asyncio"), pytest.param(uvloop.new_event_loop, id="uvloop")]


@pytest.mark.parametrize("new_loop", loops())
def test_cells_of_a_notebook(cometmq: RunningCluster, new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    threads = threading.active_count()
    with asyncio.Runner(loop_factory=new_loop) as notebook:

        def cell(work: Coroutine[Any, Any, Any]) -> Any:
            return notebook.run(asyncio.wait_for(work, 30))

        topic, namesrv, group = cometmq.topic(), cometmq.namesrv, f"group-{uuid.uuid4().hex}"
        producer = cell(Producer(group, namesrv=namesrv).start())
        for number in range(COUNT):
            cell(producer.send(Message(topic, b"%d" % number)))
        expected = sorted(b"%d" % number for number in range(COUNT))

        heard: list[bytes] = []
        all_heard = asyncio.Event()

        async def listen(message: ReceivedMessage) -> None:
            heard.append(message.body)
            if len(heard) == COUNT:
                all_heard.set()

        pushed = PushConsumer(f"{group}-push", namesrv=namesrv, start_from="first")
        pushed.subscribe(topic, listen)
        cell(pushed.start())
        cell(all_heard.wait())

        simple = cell(SimpleConsumer(f"{group}-pop", namesrv=namesrv, start_from="first").start())
        popped: list[bytes] = []

        async def take() -> None:
            async for message in simple.receive(topic, wait=timedelta(seconds=5)):
                popped.append(message.body)
                await message.ack()
                if len(popped) == COUNT:
                    return

        cell(take())

        puller = cell(LitePullConsumer(f"{group}-pull", namesrv=namesrv, start_from="first").start())
        cell(puller.subscribe(topic))
        pulled: list[bytes] = []
        while len(pulled) < COUNT:
            pulled += [message.body for message in cell(puller.poll())]

        assert sorted(heard) == sorted(popped) == sorted(pulled) == expected
        for client in (puller, simple, pushed, producer):
            cell(client.close())
        left = [task.get_name() for task in asyncio.all_tasks(notebook.get_loop())]
        assert not left
    assert threading.active_count() == threads
