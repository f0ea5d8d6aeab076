"""What the SDK writes to the trace topic is what Java's client writes there, and Java reads it."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import uuid
from pathlib import Path
from typing import Final

import pytest
from tests.interop.clients import client_jars
from tests.original.jars import VERSION
from tests.original.programs import java_program
from tests.sdk.conftest import Server

from cometmq import Decision, Message, Producer
from cometmq.client import trace
from cometmq.client.message import ReceivedMessage
from cometmq.client.options import ClientOptions
from cometmq.client.trace import CONSUME, ConsumeTrace, TraceWriter
from cometmq.client.trace_lines import Line, Outcome
from cometmq.model.names import TRACE_TOPIC
from cometmq.testing.local_cluster import LocalCluster

PROGRAM = Path(__file__).parent / "java" / "Trace.java"
TIME, ID, COST = "<time>", "<id>", "<cost>"
CHANGING: Final = {  # what no two runs have in common, by place
    "Pub": {1: TIME, 4: "<topic>", 5: ID, 10: COST, 12: ID},
    "SubBefore": {1: TIME, 4: ID, 5: ID},
    "SubAfter": {1: ID, 2: ID, 3: COST, 7: TIME},
    "EndTransaction": {1: TIME, 4: "<topic>", 5: ID, 10: ID},
}


async def java(*arguments: str) -> str:
    command = [*java_program(PROGRAM, client_jars(VERSION)), *arguments]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=90, check=True)
    return done.stdout.decode().strip()


def lines_of(messages: list[ReceivedMessage], topic: str, ids: set[str]) -> list[list[str]]:
    """The lines about a topic, without what changes; consumers' lines name ids only."""
    found = []
    for message in messages:
        for line in message.body.decode().split("\x02")[:-1]:
            fields = line.split("\x01")
            if topic in fields or ids.intersection(fields):
                if fields[0] == "Pub" and "," in fields[5]:
                    fields[9] = "<size>"  # of a batch, as it goes over the wire with its ids and properties
                found.append([CHANGING[fields[0]].get(place, field) for place, field in enumerate(fields)])
    return sorted(found)


async def ids_of(server: Server, topic: str) -> set[str]:
    return {message.message_id for message in await server.read(topic, 6)}


async def write_as_java_does(namesrv: str, topic: str) -> None:
    async with Producer("tracing", namesrv=namesrv, trace=True, checker=lambda _: Decision.UNKNOWN) as producer:
        await producer.send(Message(topic, b"plain"))
        await producer.send(Message(topic, b"keyed", tags="created", keys=["a", "b"]))
        await producer.send(Message(topic, b"delayed"), delay=1)
        await producer.send_batch([Message(topic, b"one", tags="t"), Message(topic, b"two")])
        await producer.send_in_transaction(Message(topic, b"commit", tags="paid", keys="k"), lambda _: Decision.COMMIT)
        await producer.send_in_transaction(Message(topic, b"rollback"), lambda _: Decision.ROLLBACK)


async def consume_as_java_does(server: Server, topic: str) -> None:
    (message,) = [one for one in await server.read(topic, 6) if one.tags == "created"]
    writer = TraceWriter(ClientOptions.of(server.namesrv), "traced", CONSUME)
    await writer.start()
    hook = ConsumeTrace(writer, "traced")
    hook.after(hook.before([message]), Outcome.SUCCESS)
    await writer.close()
    assert (writer.written, writer.dropped, writer.failed) == (2, 0, 0)


LINES = ["EndTransaction"] * 2 + ["Pub"] * 6 + ["SubAfter", "SubBefore"]


@pytest.mark.timeout(180)
async def test_the_lines_are_those_of_java() -> None:
    async with LocalCluster() as cluster:
        server = Server("comet", cluster.namesrv)
        for topic in ("of-java", "of-python"):
            await cluster.create_topic(topic)
        await write_as_java_does(cluster.namesrv, "of-python")
        await consume_as_java_does(server, "of-python")
        await java("write", cluster.namesrv, "of-java")
        ids = {topic: await ids_of(server, topic) for topic in ("of-java", "of-python")}
        async with asyncio.timeout(60):
            while True:  # the Java client writes its lines when it finds the time
                traces = await server.read(TRACE_TOPIC, 2)
                ours, theirs = (lines_of(traces, topic, ids[topic]) for topic in ("of-python", "of-java"))
                if len(theirs) >= len(LINES):
                    break
                await asyncio.sleep(0.2)
        assert [fields[0] for fields in ours] == LINES
        assert ours == theirs
        for message in traces:
            assert all(key in message.body.decode() for key in message.keys)
        body = b"".join(message.body for message in traces)
        again = await java("read", base64.b64encode(body).decode())
        assert base64.b64decode(again) == body


async def test_a_trace_never_fails_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "WAITING_MAX", 3)
    async with LocalCluster() as cluster:
        writer = TraceWriter(ClientOptions.of(cluster.namesrv, request_timeout_ms=200), "g" * 120, CONSUME)
        await writer.start()
        await cluster.stop_broker()
        for number in range(5):
            writer.add(Line("t", f"Pub\x01{number}\x02", (str(number),)))
        await writer.close(timeout_s=0.2)
        assert (writer.written, writer.dropped, writer.failed) == (0, 2, 3)
        writer.add(Line("t", "late", ()))
        assert writer.dropped == 3


async def test_a_broker_may_switch_it_off() -> None:
    async with LocalCluster({"traceOn": "false"}) as cluster:
        async with Producer("tracing", namesrv=cluster.namesrv, trace=True) as producer:
            await producer.send(Message(f"t-{uuid.uuid4().hex}", b"1"))
        assert producer.counters["traced"] == 0
