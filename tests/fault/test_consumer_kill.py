"""Row 24: consumers die between consuming and acknowledging, and members of a group come and go in a storm.

No message is lost; what comes again had been consumed within the last seconds before its consumer died, or its queue
went to another member; and when all is quiet every queue has one owner.
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

from .harness.consumer import UP, consume
from .harness.heard import Heard
from .harness.rows import Row, share
from .harness.warm import Forked

pytestmark = pytest.mark.timeout(300)

QUEUES = 8
AT_ONCE = 2
STORM = 100  # joins and leaves, then it must be quiet
OWNERS_WITHIN_S = 30 if share() == 1 else 60  # where others use the machine
ALL_WITHIN_S = 120


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
        self.running: dict[int, Forked] = {}
        self.files: list[Path] = []
        self.died: dict[int, float] = {}

    async def start(self) -> bool:
        """Start one more; False if it does not come up."""
        number, path = len(self.files), self.folder / f"consumer-{len(self.files)}"
        self.files.append(path)
        log = str(path.with_suffix(".log"))
        self.running[number] = Forked(log, consume, self.namesrv, "workers", self.topic, str(path))
        return await until(lambda: path.exists() and path.stat().st_size > 0, 60)

    def kill(self, number: int) -> None:
        process = self.running.pop(number)
        self.died[number] = time.monotonic()
        process.kill()
        process.wait()

    def heard(self) -> Heard:
        heard = Heard(self.died)
        for number, path in enumerate(self.files):
            # A line that the kill cut off counts as not written; the message comes again.
            lines = path.read_text().split("\n")[:-1] if path.exists() else ()
            for name, at_s in map(str.split, lines):
                heard.times[name].append((float(at_s), number))
        heard.times.pop(UP, None)
        return heard


async def test_consumers_that_die(tmp_path: Path) -> None:
    with Row(24, "consumers killed between consume and acknowledge", trimmed=2, full=500) as row:
        async with LocalCluster() as cluster, Producer("senders", namesrv=cluster.namesrv) as producer:
            await producer.create_topic("jobs", queues=QUEUES)
            workers = Workers(tmp_path, cluster.namesrv, "jobs")
            sender = Sender(producer, "jobs")
            try:
                for _ in range(AT_ONCE):
                    assert await workers.start()
                for _ in row.each():
                    await asyncio.sleep(row.chance.uniform(0.1, 1.0))
                    workers.kill(row.chance.choice(list(workers.running)))
                    if not await workers.start():
                        row.violations.append("a new consumer does not come up")
                wanted = await sender.stop()
                if not await until(lambda: wanted <= workers.heard().times.keys(), ALL_WITHIN_S):
                    row.violations.append(f"never consumed: {sorted(wanted - workers.heard().times.keys())[:20]}")
                heard = workers.heard()
                heard.judge(row)
                judge_waits(heard, sender, row)
                row.add(sent=len(wanted))
                if strangers := heard.times.keys() - wanted - {f"j{len(wanted)}"}:
                    row.violations.append(f"never sent: {sorted(strangers)[:20]}")
            finally:
                for number in list(workers.running):
                    workers.kill(number)


def judge_waits(heard: Heard, sender: Sender, row: Row) -> None:
    """Where a queue has an owner its messages do not wait: so soon after each death it had one again."""
    waits_s = [
        (min(heard.times[name])[0] - sent_s, name)
        for number, sent_s in enumerate(sender.sent_s)
        if (name := f"j{number}") in heard.times
    ]
    longest_s, name = max(waits_s)
    row.numbers["longest_until_consumed_s"] = round(longest_s, 2)
    if longest_s > OWNERS_WITHIN_S:
        row.violations.append(f"{name} waited {longest_s:.1f} s for an owner of its queue")


class Sender:
    """Sends some hundred messages a second until it is told to stop; `count` are acknowledged, one more may be."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer, self._topic = producer, topic
        self.count = 0
        self.sent_s: list[float] = []  # when, in the order of their numbers
        self._task = asyncio.create_task(self._send())

    async def _send(self) -> None:
        while True:
            for _ in range(5):
                self.sent_s.append(time.monotonic())
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
        heard = Heard({})  # nobody dies
        async with LocalCluster() as cluster, Producer("senders", namesrv=cluster.namesrv) as producer:
            await producer.create_topic("storm", queues=QUEUES)
            sender = Sender(producer, "storm")
            members: list[PushConsumer] = []
            try:
                for number in row.each():
                    if len(members) > 1 and row.chance.random() < 0.45:
                        await members.pop(row.chance.randrange(len(members))).close()
                    else:
                        members.append(await join(cluster.namesrv, number, heard))
                    await asyncio.sleep(row.chance.uniform(0, 0.1))
                    if number + 1 == row.count or (number + 1) % STORM == 0:
                        await await_owners(members, row)
                wanted = await sender.stop()
                if not await until(lambda: wanted <= heard.times.keys(), ALL_WITHIN_S):
                    row.violations.append(f"never consumed: {sorted(wanted - heard.times.keys())[:20]}")
                heard.judge(row)
                row.add(sent=len(wanted), members_at_the_end=len(members))
            finally:
                for member in members:
                    await member.close()


async def join(namesrv: str, number: int, heard: Heard) -> PushConsumer:
    """One more member, with a name of its own: members of one process are one client otherwise."""

    async def listen(message: ReceivedMessage) -> None:
        heard.times[message.body.decode()].append((time.monotonic(), number))

    member = PushConsumer("group", namesrv=namesrv, client_id=f"member-{number}")
    member.subscribe("storm", listen)
    return await member.start()


async def await_owners(members: list[PushConsumer], row: Row) -> None:
    """Until each queue has one owner, for as long as that may take."""

    def owners() -> Counter[object]:
        return Counter(queue for member in members for queue in member.queues if queue.topic == "storm")

    began = time.monotonic()
    if not await until(lambda: set(owners().values()) == {1} and len(owners()) == QUEUES, OWNERS_WITHIN_S):
        row.violations.append(f"after {OWNERS_WITHIN_S} s, queues and how many own them: {owners()}")
    took_s = round(time.monotonic() - began, 2)
    row.numbers["longest_until_owned_s"] = max(took_s, row.numbers.get("longest_until_owned_s", 0))
