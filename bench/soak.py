"""`python -m bench.soak`: idle polling for minutes and a million messages; nothing of the client may grow.

A producer, a push consumer, a lite pull consumer and a simple consumer live in this process, the broker in another.
First all of them wait for messages that do not come, then messages come in bursts, most for the push consumer. Each
burst is consumed to its end before what the process holds is looked at. Exit code 0: nothing grew and nothing was lost.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import uvloop
from tests.original import Cluster
from tests.original.process import ServerFailed

from bench import machine
from bench.growth import Growth, Sample, growth_of
from bench.results import path_of
from bench.runner import say
from cometmq import LitePullConsumer, Message, Producer, PushConsumer, ReceivedMessage, SimpleConsumer

TOPICS: Final = {"soak-push": 0.8, "soak-pull": 0.1, "soak-pop": 0.1}  # and the share of each
SAMPLES: Final = 30
WARM_SHARE: Final = 0.02
BODY_SIZE_MAX: Final = 1_000
BURST_TIMEOUT_S: Final = 300.0
PATIENCE_MS: Final = 60_000  # a machine that has much else to do is not what is looked at


class Soak:
    """The clients, what was sent and consumed, and the samples."""

    def __init__(self, namesrv: str, seed: int) -> None:
        self._namesrv = namesrv
        self._random = random.Random(seed)
        self._stack = AsyncExitStack()
        self._reading: list[asyncio.Task[None]] = []
        self.sent = dict.fromkeys(TOPICS, 0)
        self.consumed = dict.fromkeys(TOPICS, 0)
        self.samples: list[Sample] = []

    async def run(self, idle_s: float, messages: int) -> None:
        async with self._stack:
            await self._open()
            warm = int(messages * WARM_SHARE)
            await self._burst(warm)
            await self._idle(idle_s)
            for number in range(SAMPLES):
                await self._burst((messages - warm) * (number + 1) // SAMPLES - (messages - warm) * number // SAMPLES)
                self._note("messages", sum(self.sent.values()), messages)

    async def _stop_reading(self) -> None:
        for task in self._reading:
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)

    async def _open(self) -> None:
        enter = self._stack.enter_async_context
        ways: dict[str, Any] = {"namesrv": self._namesrv, "request_timeout_ms": PATIENCE_MS}
        self._producer = await enter(Producer("soak", send_timeout_ms=PATIENCE_MS, **ways))
        for topic in TOPICS:
            await self._producer.create_topic(topic, queues=8)
        push = PushConsumer("soak-push", start_from="first", **ways)
        await enter(push.subscribe("soak-push", self._hear))
        pull = await enter(LitePullConsumer("soak-pull", start_from="first", **ways))
        await pull.subscribe("soak-pull")
        pop = await enter(SimpleConsumer("soak-pop", start_from="first", **ways))
        self._stack.push_async_callback(self._stop_reading)
        self._reading = [asyncio.create_task(self._pull(pull)), asyncio.create_task(self._pop(pop))]

    async def _hear(self, message: ReceivedMessage) -> None:
        self.consumed[message.topic] += 1

    async def _pull(self, consumer: LitePullConsumer) -> None:
        while True:
            self.consumed["soak-pull"] += len(await consumer.poll(timedelta(seconds=1)))

    async def _pop(self, consumer: SimpleConsumer) -> None:
        while True:
            messages = await consumer.pop("soak-pop", wait=timedelta(seconds=2))
            await consumer.ack_all(messages)
            self.consumed["soak-pop"] += len(messages)

    async def _burst(self, count: int) -> None:
        topics = self._random.choices(list(TOPICS), list(TOPICS.values()), k=count)
        async with self._producer.pipeline(keep_receipts=False) as pipeline:
            for topic in topics:
                await pipeline.send(Message(topic, bytes(self._random.randrange(1, BODY_SIZE_MAX)), tags="soak"))
                self.sent[topic] += 1
        async with asyncio.timeout(BURST_TIMEOUT_S):
            while any(self.consumed[topic] < self.sent[topic] for topic in TOPICS):  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def _idle(self, idle_s: float) -> None:
        began = time.monotonic()
        for number in range(1, SAMPLES + 1):
            await asyncio.sleep(began + idle_s * number / SAMPLES - time.monotonic())
            self._note("idle", idle_s * number / SAMPLES, idle_s)
            if task := next((task for task in self._reading if task.done()), None):
                task.result()

    def _note(self, phase: str, done: float, whole: float) -> None:
        self.samples.append(sample := Sample.take(phase, round(done, 1)))
        say(
            f"{phase:<8} {done:>11,.0f} of {whole:,.0f}  memory {sample.memory_mb} MB  tasks {sample.tasks}  "
            f"descriptors {sample.descriptors}  threads {sample.threads}  objects {sample.objects:,}"
        )


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    seed = options.seed if options.seed is not None else random.randrange(1 << 31)
    facts = {"commit": machine.commit(), "machine": machine.facts()}  # of when it began
    say(f"seed {seed}: {options.idle_s:g} s of idle polling, then {options.messages:,} messages")
    with tempfile.TemporaryDirectory(prefix="cometmq-soak-", dir=options.scratch) as scratch:
        try:
            with Cluster("comet", Path(scratch)) as cluster:
                soak = Soak(cluster.namesrv_addr, seed)
                uvloop.run(soak.run(options.idle_s, options.messages))
        except ServerFailed as fault:
            say(f"not measured: {fault}")
            return 2
    growths = growth_of(soak.samples)
    is_whole = {topic: soak.consumed[topic] >= count for topic, count in soak.sent.items()}
    path = _save(options, seed, facts, soak, growths)
    for growth in growths:
        print(growth)
    for topic, whole in is_whole.items():
        print(f"{'PASS' if whole else 'MISS'}  {topic}: {soak.sent[topic]:,} sent, {soak.consumed[topic]:,} consumed")
    say(f"written to {path.name}")
    return 0 if all(growth.is_allowed for growth in growths) and all(is_whole.values()) else 1


def _save(options: argparse.Namespace, seed: int, facts: dict[str, Any], soak: Soak, growths: list[Growth]) -> Path:
    path = path_of(options.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {
        "name": options.name,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **facts,
        "seed": seed,
        "idle_s": options.idle_s,
        "messages": options.messages,
        "sent": soak.sent,
        "consumed": soak.consumed,
        "growth": [{**dataclasses.asdict(growth), "is_allowed": growth.is_allowed} for growth in growths],
        "samples": [dataclasses.asdict(sample) for sample in soak.samples],
    }
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return path


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.soak", description="Nothing of the client grows.")
    parser.add_argument("--idle-s", type=_at_least(1.0), default=600.0, help="seconds of idle polling (600)")
    parser.add_argument("--messages", type=lambda text: int(_at_least(1000)(text)), default=1_000_000, help="(1000000)")
    parser.add_argument("--seed", type=int, help="of the sizes and topics of messages; kept in the result")
    parser.add_argument("--name", default="soak/latest", help="of the result in bench/results (soak/latest)")
    parser.add_argument("--scratch", help="where the store is kept while it runs; wants 3 GB (the temporary folder)")
    return parser


def _at_least(least: float) -> Callable[[str], float]:
    def number(text: str) -> float:
        if float(text) < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least:g}")
        return float(text)

    return number


if __name__ == "__main__":
    sys.exit(main())
