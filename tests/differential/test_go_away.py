"""Both NameServers while they stop gracefully: whom they send away, and whom they still serve."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.original import CometNamesrv, JavaNamesrv, ServerProcess

from cometmq.net.pool import connect
from cometmq.wire.codes import VERSION, RequestCode, ResponseCode, SerializeType
from cometmq.wire.command import Command

pytestmark = pytest.mark.timeout(120)

CONF = {"enableShutdownGracefully": True, "shutdownWaitTimeSeconds": 4}
V4_9_8, V5_3_1, V5_3_2 = 409, 475, 476
UNKNOWN_CODE = 30_000
ASKED = [
    (version, code, form)
    for version in (0, V4_9_8, V5_3_1, V5_3_2, VERSION)
    for code in (RequestCode.GET_ROUTEINFO_BY_TOPIC, UNKNOWN_CODE)
    for form in SerializeType
]


def test_the_same_clients_are_sent_away(tmp_path: Path) -> None:
    servers = [kind(tmp_path / kind.__name__, conf=CONF) for kind in (JavaNamesrv, CometNamesrv)]
    answers = []
    for server in servers:
        server.launch()
    for server in servers:
        with server.await_boot():
            answers.append(asyncio.run(ask_while_it_stops(server)))
            server.kill()
    java, comet = answers
    assert comet == java
    assert {code for code, _ in java} == {ResponseCode.GO_AWAY, ResponseCode.TOPIC_NOT_EXIST, 3}


async def ask_while_it_stops(server: ServerProcess) -> list[tuple[int, str | None]]:
    early = await connect(server.addr)
    os.kill(server.pid, signal.SIGTERM)
    code = 0
    while code != ResponseCode.GO_AWAY:
        code = (await early.exchange(question(VERSION, UNKNOWN_CODE))).code
    late = await connect(server.addr)
    found = []
    for asked in ASKED:
        for channel in (early, late):
            answer = await channel.exchange(question(*asked))
            # Sentences are compared where they are the answer; those of other refusals may differ.
            found.append((answer.code, answer.remark if answer.code == ResponseCode.GO_AWAY else None))
    for channel in (early, late):
        channel.close()
    return found


def question(version: int, code: int, form: SerializeType = SerializeType.JSON) -> Command:
    fields: dict[str, Any] = {"topic": "absent"}
    return Command(code, ext=fields, version=version, serialize=form)
