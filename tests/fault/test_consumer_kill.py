"""Row 24: consumers die between consuming and acknowledging, and members of a group come and go in a storm.

No message is lost; what comes again is what was not acknowledged when someone died; and when all is quiet every queue
has one owner.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from cometmq import Message, Producer, PushConsumer, ReceivedMessage
from cometmq.testing.local_cluster import LocalCluster

from .harness.consumer import consume
from .harness.rows import Row
from .harness.warm import Forked

pytestmark = pytest.mark.timeout(300)

QUEUES = 8
AT_ONCE = 2
OWNERS_WITHIN_S = 60  # 30 where nobody else uses the machine
ALL_WITHIN_S = 120
UNSAVED_S = 10  # offsets are saved every five seconds
PULL_BATCH = 32


async def until(condition: Callable[[], bool], within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.02)
    return True


class Workers:
    """Consumer processes, and what they have written down."""

    def __init__(self, folder: Path, namesrv: str, topic: str) -> None:
        self.folder, self.namesrv, self.topic = folder, namesrv, topic
        self.running: list[Forked] = []
        self.files: list[Path] = []

    async def start(self) -> bool:
        """Start one more; False if it does not come up."""
        path = self._launch()
        return await until(lambda: path.exists() and path.stat().st_size > 0, 60)

    def _launch(self) -> Path:
        path = self.folder / f"consumer-{len(self.files)}"
        self.files.append(path)
        log = str(path.with_suffix(".log"))
        self.running.append(Forked(log, consume, self.namesrv, "workers", self.topic, str(path)))
        return path

    def kill(self, number: int) -> None:
        process = self.running.pop(number)
        process.kill()
        process.wait()

    def consumed(self) -> Counter[str]:
        lines: Counter[str] = Counter()
        for path in self.files:
            # A line that the kill cut off counts as not written; the message comes again.
            lines.update(path.read_text().split("\n")[:-1] if path.exists() else ())
        del lines["up"]
        return lines


async def test_consumers_that_die(tmp_path: Path) -> None:
    with Row(24, "consumers killed between consume and acknowledge", trimmed=2, full=500) as row:
        async with LocalCluster() as cluster, Producer("senders", namesrv=cluster.namesrv) as producer:
            await producer.create_topic("jobs", queues=QUEUES)
            workers = Workers(tmp_path, cluster.namesrv, "jobs")
            sender, began = Sender(producer, "jobs"), time.monotonic()
            try:
                for _ in range(AT_ONCE):
                    assert await workers.start()
                for _ in row.each():
                    await asyncio.sleep(row.chance.uniform(0.1, 1.0))
                    workers.kill(row.chance.randrange(AT_ONCE))
                    if not await workers.start():
                        row.violations.append("a new consumer does not come up")
                wanted = await sender.stop()
                unsaved_max = len(wanted) / (time.monotonic() - began) * UNSAVED_S + QUEUES * PULL_BATCH
                if not await until(lambda: wanted <= workers.consumed().keys(), ALL_WITHIN_S):
                    row.violations.append(f"never consumed: {sorted(wanted - workers.consumed().keys())[:20]}")
                consumed = workers.consumed()
                again = sum(consumed.values()) - len(consumed)
                row.add(sent=len(wanted), again=again)
                if again > row.count * unsaved_max:
                    row.violations.append(f"{again} came again; {row.count} deaths may cost {unsaved_max} each")
                if consumed.keys() - wanted - {f"j{len(wanted)}"}:
                    row.violations.append(f"never sent: {sorted(consumed.keys() - wanted)[:20]}")
            finally:
                while workers.running:
                    workers.kill(0)


class Sender:
    """Sends some hundred messages a second until it is told to stop; `count` are acknowledged, one more may be."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer, self._topic = producer, topic
        self.count = 0
        self._task = asyncio.create_task(self._send())

    async def _send(self) -> None:
        while True:
            for _ in range(5):
                await self._producer.send(Message(self._topic, b"j%d" % self.count))
                self.count += 1
            await asyncio.sleep(0.01)

    async def stop(self) -> set[str]:
        """The names of what was acknowledged."""
        self._task.cancel()
        (ended,) = await asyncio.gather(self._task, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError), ended
        return {f"j{number}" for number in range(self.count)}


async def test_a_storm_of_members(tmp_path: Path) -> None:
    """Members come and go; then each queue belongs to exactly one of those that stayed."""
    with Row(24, "joins and leaves of a group", trimmed=15, full=500) as row:
        heard: Counter[str] = Counter()

        async def listen(message: ReceivedMessage) -> None:
            heard[message.body.decode()] += 1

        async with LocalCluster() as cluster, Producer("senders", namesrv=cluster.namesrv) as producer:
            await producer.create_topic("storm", queues=QUEUES)
            sender = Sender(producer, "storm")
            members: list[PushConsumer] = []
            try:
                for number in row.each():
                    if len(members) > 1 and row.chance.random() < 0.45:
                        await members.pop(row.chance.randrange(len(members))).close()
                    else:
                        # A name of its own: members of one process are one client otherwise.
                        member = PushConsumer("group", namesrv=cluster.namesrv, client_id=f"member-{number}")
                        member.subscribe("storm", listen)
                        members.append(await member.start())
                    await asyncio.sleep(row.chance.uniform(0, 0.1))

                def owners() -> Counter[object]:
                    return Counter(queue for member in members for queue in member.queues if queue.topic == "storm")

                if not await until(lambda: set(owners().values()) == {1} and len(owners()) == QUEUES, OWNERS_WITHIN_S):
                    row.violations.append(f"queues and how many own them: {owners()}")
                wanted = await sender.stop()
                if not await until(lambda: wanted <= heard.keys(), ALL_WITHIN_S):
                    row.violations.append(f"never consumed: {sorted(wanted - heard.keys())[:20]}")
                row.add(sent=len(wanted), again=sum(heard.values()) - len(heard), members_at_the_end=len(members))
            finally:
                for member in members:
                    await member.close()
