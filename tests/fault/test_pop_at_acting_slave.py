"""A group in Java that pops goes on at the slave of a dead master: it hears, acknowledges and delays messages there."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import DEVNULL, PIPE
from collections import Counter
from pathlib import Path

import pytest
from tests.interop.clients import client_jars
from tests.original.jars import VERSION
from tests.original.programs import java_program
from tests.unit.broker.group_kit import ACTING, SLAVE, A, Group, count, group, make_topic, send, until

from cometmq.wire import fastjson
from cometmq.wire.requests.admin import CreateGroup
from cometmq.wire.requests.consume import OffsetReply, QueryConsumerOffset
from cometmq.wire.requests.members import SetMessageRequestMode

pytestmark = pytest.mark.timeout(120)

POPPER = Path(__file__).parent / "java" / "Popper.java"
MESSAGES = 40


async def test_java_pops_at_the_slave(tmp_path: Path) -> None:
    heard: Counter[str] = Counter()
    async with group(tmp_path, **ACTING) as brokers:
        await brokers.start(A)
        await make_topic(brokers, A)
        await brokers.ask(A, CreateGroup(), fastjson.dumps({"groupName": "g"}))
        mode = {"topic": "T", "consumerGroup": "g", "mode": "POP", "popShareQueueNum": 0}
        await brokers.ask(A, SetMessageRequestMode(), fastjson.dumps(mode))
        await brokers.start(SLAVE)
        for number in range(MESSAGES):
            await send(brokers, A, b"%d" % number)

        async def copied() -> bool:
            return await count(brokers, SLAVE) == MESSAGES

        await until(copied, "the slave has everything")
        await brokers.stop(A)
        command = java_program(POPPER, client_jars(VERSION))
        java = await asyncio.create_subprocess_exec(
            *command, brokers.name_server.address, "g", "T", stdin=PIPE, stdout=PIPE, stderr=DEVNULL
        )
        assert java.stdin is not None and java.stdout is not None
        try:
            async with asyncio.timeout(60):
                while len(heard) < MESSAGES or heard["3"] < 2:
                    word, _, body = (await java.stdout.readline()).decode().strip().partition(" ")
                    assert word == "got", "it ended"
                    heard[body] += 1
            await until(lambda: has_committed(brokers, MESSAGES), "all of it is acknowledged")
            java.stdin.close()
            await asyncio.wait_for(java.wait(), 30)
        finally:
            if java.returncode is None:
                java.kill()
                await java.wait()
        assert heard.keys() == {str(number) for number in range(MESSAGES)}
        assert sum(heard.values()) <= MESSAGES + 4, "message 3, and those that came with it"
        await brokers.start(A)
        reply = await brokers.ask(A, QueryConsumerOffset("T", 0, "g"))
        assert OffsetReply.read(reply.ext).offset == MESSAGES, "the master repeats nothing"


async def has_committed(brokers: Group, offset: int) -> bool:
    reply = await brokers.ask(SLAVE, QueryConsumerOffset("T", 0, "g"))
    return OffsetReply.read(reply.ext).offset == offset
