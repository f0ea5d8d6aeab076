"""The client imports and runs where the POSIX-only modules are not there (as on Windows)."""

from __future__ import annotations

import subprocess
import sys

from cometmq.testing.pytest_plugin import RunningCluster

BLOCKED = ["fcntl", "resource", "pwd", "grp", "termios", "pty", "uvloop"]

PROGRAM = """
import sys
for name in sys.argv[1].split(","):
    sys.modules[name] = None                                # importing it raises ImportError
import os
del os.fork, os.register_at_fork

import asyncio
from datetime import timedelta
import cometmq
from cometmq import LitePullConsumer, Message, Producer, PushConsumer, SimpleConsumer, blocking

for name in cometmq.__all__:
    getattr(cometmq, name)
namesrv, topic = sys.argv[2:]


async def main() -> None:
    heard = asyncio.Event()

    async def listen(message) -> None:
        heard.set()

    async with Producer("p", namesrv=namesrv) as producer, asyncio.timeout(30):
        await producer.send(Message(topic, b"1"))
        async with SimpleConsumer("simple", namesrv=namesrv, start_from="first") as consumer:
            await (await anext(consumer.receive(topic))).ack()
        async with LitePullConsumer("lite", namesrv=namesrv, start_from="first") as consumer:
            await consumer.subscribe(topic)
            assert [message.body for message in await consumer.poll()] == [b"1"]
        async with PushConsumer("push", namesrv=namesrv, start_from="first").subscribe(topic, listen):
            await heard.wait()


asyncio.run(main())
with blocking.Producer("p", namesrv=namesrv) as producer:
    producer.send(Message(topic, b"2"))
print("done", [name for name in sys.argv[1].split(",") if sys.modules.get(name) is not None])
"""


def test_without_posix_modules(cometmq: RunningCluster) -> None:
    given = [",".join(BLOCKED), cometmq.namesrv, cometmq.topic(1)]
    command = [sys.executable, "-W", "error", "-c", PROGRAM, *given]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout.strip() == "done []", ended.stderr
    assert ended.stderr == ""
