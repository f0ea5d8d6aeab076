"""The latency report on real traces: those of our client and of Java's, every row of it as counted from the lines."""

from __future__ import annotations

import asyncio
import math
import re
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession
from tests.interop.clients import client_jars
from tests.original.jars import VERSION
from tests.original.programs import java_program
from tests.spark.kit import Server, read_all
from tests.spark.pipeline_kit import pipeline

from cometmq import Message, Producer, PushConsumer, ReceivedMessage
from cometmq.model.names import TRACE_TOPIC
from cometmq.testing.local_cluster import LocalCluster
from cometmq.testing.pytest_plugin import RunningCluster

pytestmark = [pytest.mark.usefixtures("tables"), pytest.mark.timeout(300)]

PROGRAM: Final = Path(__file__).parent / "java" / "TracedWork.java"
OURS: Final = 40
# Java writes ten lines together, or what there is after five seconds: these numbers leave nothing waiting.
SINGLES, BATCH = 39, 6
BARS: Final = 13


@pytest.fixture
def traced() -> Iterator[Server]:
    """A cluster whose broker has the topic of traces."""
    running = RunningCluster()
    running.cluster = LocalCluster({"traceTopicEnable": "true"})
    running.start()
    yield Server("comet", running.namesrv)
    running.stop()


def work(server: Server, topic: str, group: str) -> None:
    """Send some messages and work on each for a moment, all of it traced."""

    async def run() -> None:
        heard: list[bytes] = []
        done = asyncio.Event()

        async def hear(message: ReceivedMessage) -> None:
            heard.append(message.body)
            await asyncio.sleep(0.005)
            if len(heard) == OURS:
                done.set()

        consumer = PushConsumer(group, namesrv=server.namesrv, start_from="first", trace=True)
        consumer.subscribe(topic, hear)
        async with consumer, Producer("pipeline-tests", namesrv=server.namesrv, trace=True) as producer:
            for number in range(OURS):
                await producer.send(Message(topic, b"%d" % number))
            await done.wait()

    asyncio.run(run())


def work_as_java_does(server: Server, topic: str, group: str) -> None:
    """The same with Java's client, and a batch; returns when everything that it traces has been written."""
    command = [*java_program(PROGRAM, client_jars(VERSION)), server.namesrv, topic, group, str(SINGLES), str(BATCH)]
    # One line for the batch when it is sent; and none when its messages are consumed, as they have no region.
    expected = {"Pub": SINGLES + 1, "SubBefore": SINGLES, "SubAfter": SINGLES}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin is not None and program.stdout is not None
        try:
            assert program.stdout.readline() == "worked\n"
            deadline = time.monotonic() + 60
            while (found := kinds_of(server, topic)) != expected and time.monotonic() < deadline:
                time.sleep(0.1)
            program.stdin.close()
            assert program.wait(60) == 0
            assert found == kinds_of(server, topic) == expected
        finally:
            program.kill()


def kinds_of(server: Server, topic: str) -> Counter[str]:
    """The lines about a topic; those of consumers name ids only."""
    ids = set(read_all(server.options(subscribe=topic)).column("message_id").to_pylist())
    return Counter(line["kind"] for line in lines_of(server) if ids.intersection(line["message_id"].split(",")))


def lines_of(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read_all(server.options(table="trace")).to_pylist()
    return found


Row = tuple[int | None, ...]


def report_of(lines: Sequence[dict[str, Any]]) -> dict[tuple[str, str | None], Row]:
    """By topic and group: how many messages, and the percentiles 50 and 99 of stored, begun and done."""
    sent = {
        message_id: line
        for line in lines
        if line["kind"] == "Pub" and line["success"]
        for message_id in line["message_id"].split(",")
    }
    done = {(line["request_id"], line["message_id"]): line for line in lines if line["kind"] == "SubAfter"}
    begun = {(line["request_id"], line["message_id"]): line for line in lines if line["kind"] == "SubBefore"}
    rows = defaultdict(list)
    for delivery, line in begun.items():
        pub, after = sent[line["message_id"]], done[delivery]
        waited = round((line["time"] - pub["time"]).total_seconds() * 1000)
        rows[pub["topic"], line["group"]].append((pub["cost_ms"], waited, after["cost_ms"]))
    for message_id in sent.keys() - {line["message_id"] for line in begun.values()}:
        rows[sent[message_id]["topic"], None].append((sent[message_id]["cost_ms"], None, None))
    return {
        key: (len(found), *[percentile(values, share) for values in zip(*found, strict=True) for share in (0.5, 0.99)])
        for key, found in rows.items()
    }


def write_again(server: Server) -> None:
    """All traces once more, as clients do that had no answer."""

    async def run() -> None:
        async with Producer("pipeline-tests", namesrv=server.namesrv) as producer:
            for body in read_all(server.options(subscribe=TRACE_TOPIC)).column("body").to_pylist():
                await producer.send(Message(TRACE_TOPIC, body))

    asyncio.run(run())


def percentile(values: Sequence[int | None], share: float) -> int | None:
    known = sorted(value for value in values if value is not None)
    return known[math.ceil(share * len(known)) - 1] if known else None


def test_the_report_of_two_clients(traced: Server, spark: SparkSession, connect: str, tmp_path: Path) -> None:
    ours, javas = traced.topic(queues=2), traced.topic(queues=1)
    work(traced, ours, "traced")
    work_as_java_does(traced, javas, "traced-in-java")
    write_again(traced)
    settings = ("--set", f"namesrv={traced.namesrv}", "--set", f"traceTopic={TRACE_TOPIC}")
    ended = pipeline(connect, "run", "latency", *settings, "--state", tmp_path / "state")
    assert ended.returncode == 0, ended.stderr

    found = {(row.topic, row.group): tuple(row)[2:] for row in spark.table("latency").collect()}
    assert found == report_of(lines_of(traced))
    assert {key: row[0] for key, row in found.items()} == {
        (ours, "traced"): OURS,
        (javas, "traced-in-java"): SINGLES,
        (javas, None): BATCH,
    }
    for key in ((ours, "traced"), (javas, "traced-in-java")):
        assert found[key][5] >= 5, "the work took five milliseconds"

    picture = tmp_path / "state" / "charts" / "latency_chart.svg"
    assert f"drawn: {picture}" in ended.stdout
    drawn = picture.read_text()
    assert ">Messages by the time until a consumer began with them<" in drawn
    numbers = re.findall(r'<text x="[\d.]+" y="\d+">([\d,]+)</text>', drawn)
    assert len(numbers) == BARS
    assert sum(int(number.replace(",", "")) for number in numbers) == OURS + SINGLES
