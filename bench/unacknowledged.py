"""`python -m bench.unacknowledged`: what popped messages that nobody acknowledges cost in memory; and all come back.

A broker of its own gets `--count` small messages (1,000,000) and hands them out `--at-once` (one) at a time, each time
with a checkpoint; none is acknowledged. Its anonymous memory is read all the while: when all are handed out, and
until all are in the retry topic again. Some minutes; exit code 1 if it grew by more than `GROWTH_MIB_MAX`, or if not as
many came back as were handed out.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.original import CometBroker, CometNamesrv

from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.batch import encode_batch
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.consume import GetMaxOffset
from cometmq.wire.requests.pop import PopMessage, PopMessageReply
from cometmq.wire.requests.send import SendBatchMessage

TOPIC, GROUP = "unacknowledged", "forgetful"
QUEUES: Final = 8
BATCH_COUNT: Final = 500
IN_FLIGHT: Final = 64
GROWTH_MIB_MAX: Final = 192  # from the first tenth on; the timer makes up to 128 MiB ready for its next seconds
LATE_S_MAX: Final = 300
REPORTS: Final = 10


class Memory:
    """A process's anonymous memory, and the most of it that was seen."""

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        self.peak_mib = 0.0

    def read_mib(self) -> float:
        found = re.search(r"RssAnon:\s+(\d+) kB", self._status.read_text())
        mib = int(found[1]) / 1024 if found else 0.0
        self.peak_mib = max(self.peak_mib, mib)
        return mib


async def send(channel: Channel, count: int) -> None:
    made = [(0, b"%07d" % number, b"TAGS\x01a\x02") for number in range(BATCH_COUNT)]
    for number in range(count // BATCH_COUNT):
        request = SendBatchMessage(
            GROUP, TOPIC, "TBW102", QUEUES, number % QUEUES, 0, int(time.time() * 1000), 0, "", batch=True
        )
        await channel.call(request, encode_batch(made))


async def pop(channel: Channel, count: int, at_once: int, invisible_ms: int, memory: Memory) -> float:
    """Hand out everything; what the broker takes after the first tenth."""
    request = PopMessage(
        consumer_group=GROUP, topic=TOPIC, queue_id=-1, max_msg_nums=at_once, invisible_time=invisible_ms, poll_time=0,
        born_time=0, init_mode=0,
    )  # fmt: skip
    popped, first_tenth_mib, step = 0, 0.0, count // REPORTS
    while popped < count:
        before = popped
        answers = await asyncio.gather(
            *(channel.exchange(request.command()) for _ in range(min(IN_FLIGHT, (count - popped) // at_once + 1)))
        )
        popped += sum(_count(PopMessageReply.read(one.ext)) for one in answers if one.code == ResponseCode.SUCCESS)
        if popped // step > before // step:
            now_mib = memory.read_mib()
            first_tenth_mib = first_tenth_mib or now_mib
            print(f"{popped:>9} handed out  {now_mib:7.1f} MiB", flush=True)
    return first_tenth_mib


def _count(reply: PopMessageReply) -> int:
    parts = (reply.msg_offset_info or "").split(";")
    return sum(part.count(",") + 1 for part in parts if part)


async def come_back(channel: Channel, count: int, memory: Memory, until: float) -> int:
    """Wait until all are in the retry topic; says how many are."""
    said, came = 0, 0
    while time.monotonic() < until:
        answer = await channel.exchange(GetMaxOffset(f"%RETRY%{GROUP}_{TOPIC}", 0).command())
        came = int(answer.ext["offset"]) if answer.code == ResponseCode.SUCCESS else 0
        now_mib = memory.read_mib()
        if came * REPORTS // count > said:
            said = came * REPORTS // count
            print(f"{came:>9} came back   {now_mib:7.1f} MiB", flush=True)
        if came >= count:
            break
        await asyncio.sleep(1)
    return came


async def measure(count: int, at_once: int, invisible_s: int, folder: Path) -> bool:
    with CometNamesrv(folder / "namesrv") as namesrv, CometBroker(folder / "broker", [namesrv.addr]) as broker:
        channel = await connect(broker.addr)
        memory = Memory(broker.pid)
        print(f"    start             {memory.read_mib():7.1f} MiB")
        await send(channel, count)
        print(f"{count:>9} sent        {memory.read_mib():7.1f} MiB", flush=True)
        began = time.monotonic()
        first_mib = await pop(channel, count, at_once, invisible_s * 1000, memory)
        print(f"          {count / (time.monotonic() - began):.0f} messages/s", flush=True)
        came = await come_back(channel, count, memory, time.monotonic() + invisible_s + LATE_S_MAX)
        channel.close()
    grown_mib = memory.peak_mib - first_mib
    print(f"{came} of {count} came back; memory grew by {grown_mib:.1f} MiB, {GROWTH_MIB_MAX} is the most allowed")
    return came == count and grown_mib <= GROWTH_MIB_MAX


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.unacknowledged", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=1_000_000, help="messages, in whole batches of 500")
    parser.add_argument("--at-once", type=int, default=1, help="messages of one pop, and so of one checkpoint")
    parser.add_argument("--invisible", type=int, default=240, help="seconds until a message comes back")
    parser.add_argument("--scratch", help="where the store is kept while it runs; wants 4 GB (the temporary folder)")
    options = parser.parse_args()
    count = max(options.count - options.count % BATCH_COUNT, BATCH_COUNT)
    with tempfile.TemporaryDirectory(prefix="cometmq-unacknowledged-", dir=options.scratch) as folder:
        return 0 if asyncio.run(measure(count, options.at_once, options.invisible, Path(folder))) else 1


if __name__ == "__main__":
    sys.exit(main())
