"""Row 25 with a slave: a master is killed while it delivers hundreds of messages, and its slave acts for it.

Delay levels, timers and transactions that are being ended. While the master is dead, nothing is missing, and nothing is
both in the slave's copy and at the other master. What the master delivered in its last moment and its slave was not
sent any more comes again there, for nobody else knew: the one thing that is there twice when the master is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from tests.original.process import BrokerProcess
from tests.unit.broker.transaction_kit import COMMIT, ROLLBACK, Begun

from cometmq import Decision, Message, Producer, ReceivedMessage
from cometmq.errors import PeerError
from cometmq.model import names, properties
from cometmq.net.channel import Channel
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.record import Record, decode_records
from cometmq.wire.requests.consume import GetMaxOffset, PullMessage
from cometmq.wire.requests.send import SendMessageV2

from .harness.pair import progress
from .harness.rows import Row, share
from .harness.two_masters import ACTING, QUEUES, TOPIC, Brokers, until

pytestmark = pytest.mark.timeout(240)

COUNT = 300  # of each kind
AT_A_TIME = 2 if share() is not None else 1
TIMEOUT_MS = 30_000
GROUP: Final = "askable"
KINDS = ("level", "timer", "half")
TIMERS_FROM_MS, TIMERS_FOR_MS = 3_000, 4_000
END_EVERY_S = 0.02
WAIT_IN: Final = {
    (names.SCHEDULE_TOPIC, 0): COUNT // 2,
    (names.SCHEDULE_TOPIC, 1): COUNT // 2,
    (names.TIMER_TOPIC, 0): COUNT,
    (names.HALF_TOPIC, 0): COUNT,
}
CONF = {**ACTING, "messageDelayLevel": "2s 4s"}
ALL = {f"{kind}{number}" for kind in KINDS for number in range(COUNT)}


WANTED = ALL - {f"half{number}" for number in range(0, COUNT, 3)}  # those are rolled back


@pytest.mark.parametrize("role", ["SYNC_MASTER", "ASYNC_MASTER"])
async def test_a_master_dies_in_the_midst_of_delivering(tmp_path: Path, role: str) -> None:
    with Row(25, f"master killed while it delivers, its slave acts, {role}", trimmed=1, full=20) as row:
        numbers = row.each()
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_A_TIME):
                group.create_task(live(row, numbers, tmp_path, role))


async def live(row: Row, numbers: Iterator[int], folder: Path, role: str) -> None:
    for number in numbers:
        with ExitStack() as running:
            home = folder / str(number)
            brokers = await asyncio.to_thread(Brokers, home, running, CONF, role=role)
            faults = await die_delivering(row, number, brokers)
            row.violations += [f"death {number}: {fault}" for fault in faults]
            await brokers.pool.close()
        if not row.violations:
            shutil.rmtree(home)


async def die_delivering(row: Row, number: int, brokers: Brokers) -> list[str]:
    await brokers.make_topic()
    channel = await brokers.pool.channel(brokers.master.addr)
    await until(lambda: takes_messages(channel), "the slave follows")
    begun = await send_all(channel)
    ending = asyncio.create_task(end_all(channel, begun))
    await until(lambda: waits_at_the_slave(brokers), "the slave has all that waits")
    some = row.chance_of(number).randrange(COUNT // 4, len(WANTED) * 3 // 4)
    await until(lambda: has_visible(brokers.master, brokers, some), "the master delivers")
    brokers.master.kill()
    await ending
    checked = Producer(GROUP, namesrv=brokers.namesrv.addr, heartbeat_interval_s=1.0, checker=decide)
    async with checked as producer:
        await producer.send(Message(TOPIC, b"probe"))  # so that the other master knows this producer
        await until(lambda: all_is_there(brokers), "all is at the slave or at the other master")
        end, _ = await progress(brokers.slave)
        at_slave, at_other = [found_in(await records(brokers, one)) for one in (brokers.slave, brokers.other)]
        await asyncio.to_thread(brokers.master.start)
        await until(lambda: delivers_again(brokers), "the master delivers again")
    faults = [f"{name} is at the slave and at the other master" for name in at_slave & at_other]
    ours, theirs = [await records(brokers, one) for one in (brokers.master, brokers.other)]
    late = found_in([record for record in ours if record.physical_offset >= end])
    row.add(sent=len(ALL), by_the_master=len(at_slave), by_the_slave=len(at_other), twice=len(late & found_in(theirs)))
    for where, found in (("master", ours), ("other master", theirs)):
        counts = found_in(found)
        faults += [f"{name} is {count} times at the {where}" for name, count in counts.items() if count > 1]
        faults += [f"{name} was rolled back and is at the {where}" for name in counts if name not in WANTED]
    twice = (found_in(ours) & found_in(theirs)) - late
    return faults + [f"{name}, which the slave had, is at both masters" for name in twice]


def found_in(found: list[Record]) -> Counter[str]:
    counts = Counter(str(record.body, "utf-8") for record in found)
    return Counter({name: count for name, count in counts.items() if name in ALL})


async def decide(message: ReceivedMessage) -> Decision:
    return Decision.COMMIT if message.body.decode() in WANTED else Decision.ROLLBACK


async def send(channel: Channel, name: str, topic: str = TOPIC, **wish: str) -> Command:
    text = properties.render({"UNIQ_KEY": name, **wish})
    request = SendMessageV2(GROUP, topic, "TBW102", QUEUES, 0, 0, time.time_ns() // 10**6, 0, text)
    return await channel.call(request, name.encode(), timeout_ms=TIMEOUT_MS)


async def takes_messages(channel: Channel) -> bool:
    await send(channel, "probe", "probe")
    return True


async def send_all(channel: Channel) -> list[Begun]:
    """What is to be delivered; the half messages are still to be ended."""
    now_ms = time.time_ns() // 10**6
    dues_ms = [now_ms + TIMERS_FROM_MS + number * TIMERS_FOR_MS // COUNT for number in range(COUNT)]
    waiting = [send(channel, f"level{number}", DELAY=str(number % 2 + 1)) for number in range(COUNT)]
    waiting += [send(channel, f"timer{number}", TIMER_DELIVER_MS=str(due_ms)) for number, due_ms in enumerate(dues_ms)]
    halves = [send(channel, f"half{number}", TRAN_MSG="true", PGROUP=GROUP) for number in range(COUNT)]
    await asyncio.gather(*waiting)
    answers = await asyncio.gather(*halves)
    return [
        Begun(f"half{number}", int(answer.ext["msgId"][-16:], 16), int(answer.ext["queueOffset"]))
        for number, answer in enumerate(answers)
    ]


async def end_all(channel: Channel, begun: list[Begun]) -> None:
    """One after the other, until the master is gone."""
    with contextlib.suppress(PeerError):
        for one in begun:
            verdict = COMMIT if one.key in WANTED else ROLLBACK
            await channel.call(one.end(verdict, group=GROUP), timeout_ms=TIMEOUT_MS)
            await asyncio.sleep(END_EVERY_S)


async def waits_at_the_slave(brokers: Brokers) -> bool:
    channel = await brokers.pool.channel(brokers.slave.addr)
    return all([await visible(channel, *queue) >= count for queue, count in WAIT_IN.items()])


async def has_visible(broker: BrokerProcess, brokers: Brokers, count: int) -> bool:
    channel = await brokers.pool.channel(broker.addr)
    return sum([await visible(channel, TOPIC, queue_id) for queue_id in range(QUEUES)]) >= count


async def visible(channel: Channel, topic: str, queue_id: int) -> int:
    return int((await channel.call(GetMaxOffset(topic, queue_id), timeout_ms=TIMEOUT_MS)).ext["offset"])


async def all_is_there(brokers: Brokers) -> bool:
    found = [found_in(await records(brokers, one)) for one in (brokers.slave, brokers.other)]
    return found[0].keys() | found[1].keys() >= WANTED


async def delivers_again(brokers: Brokers) -> bool:
    """A message of each kind is sent until one has come: by then those that were due before have, too."""
    channel = await brokers.pool.channel(brokers.master.addr)
    await send(channel, "later", DELAY="1")
    await send(channel, "timed", TIMER_DELAY_MS="1000")
    return {b"later", b"timed"} <= {record.body for record in await records(brokers, brokers.master)}


async def records(brokers: Brokers, broker: BrokerProcess) -> list[Record]:
    """Everything in the topic."""
    found: list[Record] = []
    channel = await brokers.pool.channel(broker.addr)
    for queue_id in range(QUEUES):
        offset = 0
        while True:
            request = PullMessage("look", TOPIC, queue_id, offset, 32, 4, 0, 0, 0, "*")
            answer = await channel.exchange(request.command(), timeout_ms=TIMEOUT_MS)
            if answer.code != ResponseCode.SUCCESS:
                break
            found += decode_records(answer.body, check_crc=True)
            offset = found[-1].queue_offset + 1
    return found
