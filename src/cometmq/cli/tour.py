"""`cometmq tour`: what a message queue does, shown in seconds on a server of your own or one that comes along.

Each step does something, waits until it can be seen, and says what it saw. A step that fails does not end the tour:
the table tells which did, so this is also a quick test of a server. Topics and groups are the tour's own and are
deleted at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import timedelta
from typing import Final, NamedTuple, TextIO

from cometmq.cli import options
from cometmq.cli.embedded import embedded_server
from cometmq.client.instance import ClientInstance
from cometmq.client.message import Message, Receipt, ReceivedMessage
from cometmq.client.producer import Producer
from cometmq.client.push_consumer import PushConsumer
from cometmq.client.transaction import Decision
from cometmq.errors import CometError, PeerRefused, RetryLater
from cometmq.model.names import DLQ_PREFIX, RETRY_PREFIX
from cometmq.model.route import MASTER_ID
from cometmq.wire.record import decode_records
from cometmq.wire.requests.admin import DeleteGroup, DeleteTopicInBroker
from cometmq.wire.requests.namesrv import DeleteTopicInNamesrv
from cometmq.wire.requests.query import QueryMessage

COUNT: Final = 100
STEP_TIMEOUT_S: Final = 8.0
TIMEOUT_S: Final = 25.0
RETRY_LEVEL: Final = 1  # one second, unless the broker is configured otherwise
_POLL_S: Final = 0.05
_BAR: Final = 24


class Seen(NamedTuple):
    """How a step went."""

    name: str
    is_ok: bool
    what: str
    seconds: float


class Tour:
    """The steps, on one topic with one producer and one consumer."""

    def __init__(self, producer: Producer, namesrv: str, topic: str, group: str) -> None:
        self.topic = topic
        self.group = group
        self._producer = producer
        self._consumer = PushConsumer(
            group, namesrv=namesrv, start_from="first", max_reconsume_times=1, retry_delay_level=RETRY_LEVEL
        )
        self._heard: dict[str, list[float]] = {}
        self._news = asyncio.Event()
        self._sent: list[Receipt] = []

    @property
    def steps(self) -> list[tuple[str, Callable[[], Awaitable[str]]]]:
        return [
            ("topic", self.create),
            ("send", self.send),
            ("consume", self.consume),
            ("delay", self.delay),
            ("retry, dead letter", self.fail),
            ("transaction", self.transact),
            ("query by key", self.query),
        ]

    async def create(self) -> str:
        await self._producer.create_topic(self.topic, queues=4)
        return f"{self.topic}, with 4 queues"

    async def send(self) -> str:
        async with self._producer.pipeline() as pipeline:
            for number in range(COUNT):
                await pipeline.send(Message(self.topic, b"order %d" % number, tags="created", keys=[f"order-{number}"]))
        self._sent = pipeline.receipts
        return f"{COUNT} messages, each acknowledged"

    async def consume(self) -> str:
        self._consumer.subscribe(self.topic, self._hear)
        await self._consumer.start()
        await self._until(*self._sent)
        return f"all {COUNT} came to a push consumer"

    async def delay(self) -> str:
        begun = time.monotonic()
        receipt = await self._producer.send(Message(self.topic, b"later"), delay=timedelta(seconds=1))
        await self._until(receipt)
        return f"asked for 1 s, came after {self._heard[receipt.message_id][0] - begun:.2f} s"

    async def fail(self) -> str:
        receipt = await self._producer.send(Message(self.topic, b"broken", tags="broken"))
        await self._until(receipt, times=2)
        await self._find(receipt.broker_name, DLQ_PREFIX + self.group, receipt.message_id, is_unique=True)
        return f"failed twice, then in {DLQ_PREFIX}{self.group}"

    async def transact(self) -> str:
        async with self._producer.transaction(Message(self.topic, b"rolled back")) as rolled_back:
            rolled_back.rollback()
        async with self._producer.transaction(Message(self.topic, b"committed")) as committed:
            pass
        await self._until(committed.receipt)
        if rolled_back.receipt.message_id in self._heard:
            raise CometError("a message came that had been rolled back")
        return "committed: delivered; rolled back: never seen"

    async def query(self) -> str:
        if not self._sent:
            raise CometError("nothing was sent that could be found")
        key = f"order-{COUNT - 1}"
        found = await self._find(self._sent[-1].broker_name, self.topic, key)
        return f"{key} found: {found.body.decode()!r} in queue {found.queue_id}"

    async def close(self) -> None:
        await self._consumer.close()

    # --- how it sees

    async def _hear(self, message: ReceivedMessage) -> None:
        self._heard.setdefault(message.message_id, []).append(time.monotonic())
        self._news.set()
        if message.tags == "broken":
            raise RetryLater("on purpose", delay_level=RETRY_LEVEL)

    async def _until(self, *receipts: Receipt, times: int = 1) -> None:
        """Wait until these messages have been heard so often."""
        while any(len(self._heard.get(receipt.message_id, ())) < times for receipt in receipts):
            self._news.clear()
            await self._news.wait()

    async def _find(self, broker_name: str, topic: str, key: str, *, is_unique: bool = False) -> ReceivedMessage:
        """The first message with a key, as soon as there is one."""
        now_ms = int(time.time() * 1000)
        request = QueryMessage(32, now_ms - 3_600_000, now_ms + 60_000, topic, key, unique_key=is_unique)
        while True:
            with suppress(PeerRefused):  # nothing found yet
                answer = await self._producer.instance.call(broker_name, request)
                for record in decode_records(answer.body):
                    return ReceivedMessage(record, broker_name)
            await asyncio.sleep(_POLL_S)


async def clean_up(instance: ClientInstance, tour: Tour) -> None:
    """Leave nothing behind on a server that is not ours; what cannot be deleted stays."""
    topics = [tour.topic, RETRY_PREFIX + tour.group, DLQ_PREFIX + tour.group]
    for broker_name, addresses in list(instance.routes.brokers.items()):
        if MASTER_ID not in addresses:
            continue
        for request in (*map(DeleteTopicInBroker, topics), DeleteGroup(tour.group, True)):
            try:
                await instance.call(broker_name, request)
            except CometError as fault:
                logging.getLogger("cometmq").info("%s: %s", broker_name, fault)
    for topic in topics:
        try:
            await instance.name_servers.call(DeleteTopicInNamesrv(topic))
        except CometError as fault:
            logging.getLogger("cometmq").info("%s: %s", topic, fault)


async def walk(tour: Tour, out: TextIO) -> list[Seen]:
    """All steps, one after the other."""
    seen: list[Seen] = []
    steps = tour.steps
    until = time.monotonic() + TIMEOUT_S
    for number, (name, step) in enumerate(steps):
        show_progress(out, number, len(steps), name)
        begun = time.monotonic()
        try:
            async with asyncio.timeout(min(STEP_TIMEOUT_S, max(0.0, until - begun))):
                what, is_ok = await step(), True
        except TimeoutError:
            what, is_ok = "not seen in time", False
        except CometError as fault:
            what, is_ok = str(fault), False
        seen.append(Seen(name, is_ok, what, time.monotonic() - begun))
    show_progress(out, len(steps), len(steps), "done")
    return seen


def show_progress(out: TextIO, done: int, total: int, name: str) -> None:
    """A bar that is drawn over on a terminal, and left out elsewhere."""
    if out.isatty():
        filled = _BAR * done // total
        out.write(f"\r[{'█' * filled}{'░' * (_BAR - filled)}] {done}/{total} {name:<20}")
        out.write("\n" if done == total else "")
        out.flush()


def table(seen: Sequence[Seen]) -> str:
    """What was seen, for people."""
    rows = [("", "step", "what was seen", "time")]
    rows += [("✓" if one.is_ok else "✗", one.name, one.what, f"{one.seconds:.2f} s") for one in seen]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(lines)


async def guide(namesrv: str | None, out: TextIO) -> list[Seen]:
    """The whole tour, on a running server or on one of its own."""
    async with AsyncExitStack() as closing:
        address = namesrv if namesrv is not None else await closing.enter_async_context(embedded_server())
        name = f"cometmq-tour-{uuid.uuid4().hex[:8]}"  # of the topic and of both groups
        producer = Producer(name, namesrv=address, checker=lambda _: Decision.ROLLBACK)
        await closing.enter_async_context(producer)
        tour = Tour(producer, address, name, name)
        try:
            return await walk(tour, out)
        finally:
            await tour.close()
            if namesrv is not None:
                await clean_up(producer.instance, tour)


def run(arguments: list[str]) -> int:
    about = "A guided run through what a message queue does, in a few seconds."
    parser = argparse.ArgumentParser(prog="cometmq tour", description=about, allow_abbrev=False)
    parser.add_argument("-n", "--namesrv", metavar="ADDRESSES", help="a running server; else one comes along")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="log more; twice: log much more")
    given = parser.parse_args(arguments)
    if given.namesrv is not None:
        options.check_addresses(given.namesrv)
    logging.getLogger("cometmq").setLevel(logging.ERROR - 10 * min(given.verbose, 3))
    print(f"A tour of {f'the server at {given.namesrv}' if given.namesrv else 'a server that comes along'}:")
    seen = asyncio.run(guide(given.namesrv, sys.stdout))
    print(table(seen))
    if all(one.is_ok for one in seen):
        print("Go on with docs/sdk.md and examples/.")
        return 0
    return 1
