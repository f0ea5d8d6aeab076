"""A consumer far behind: what it costs those who send that someone reads what has left the memory.

The broker was started anew on a log whose pages were dropped. Messages are sent at a steady pace, far below what the
broker can take: first alone, then while a reader in another process pulls the old messages as fast as it can.
The reader must still be reading when the sends end, or nothing was measured.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

from bench.ask import Asker
from bench.cpu import CpuMeter
from bench.frames import send_request
from bench.tally import Invalid, Tally
from bench.workloads import BODY_SIZE, QUEUES, Job
from cometmq.model.sysflag import PullFlag
from cometmq.net.pool import connect
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.consume import PullMessage, PullMessageReply

PACE_PER_S: Final = 1_000
PULL_COUNT: Final = 32
_BODY: Final = b"x" * BODY_SIZE


def drop_pages(commit_log: Path) -> None:
    """Let the system forget what it holds of the log; nobody may have it mapped."""
    os.sync()
    for path in commit_log.iterdir():
        fd = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def run_cold(job: Job) -> Tally:
    """The tally is of the sends beside the reader; `alone_p99_ms` is that of the same sends without it."""
    alone = asyncio.run(_paced(job, job.prelude_s, job.duration_s))
    begun, stop = multiprocessing.Event(), multiprocessing.Event()
    reader = multiprocessing.Process(target=_read, args=(job.address, job.topic, begun, stop), daemon=True)
    reader.start()
    try:
        if not begun.wait(10):
            raise Invalid("the reader of old messages got nothing")
        beside = asyncio.run(_paced(job, 0.0, job.duration_s))
        if not reader.is_alive():
            raise Invalid("the reader was through with the old messages before the sends ended: fill in more")
    finally:
        stop.set()
        reader.join(10)
        reader.kill()
    beside.alone_p99_ms = alone.p99_ms
    beside.slowdown = round(beside.p99_ms / alone.p99_ms, 3)
    beside.acknowledged_total += alone.acknowledged_total
    return beside


async def _paced(job: Job, prelude_s: float, duration_s: float) -> Tally:
    """Send one message each 1 / PACE_PER_S seconds and time the acknowledgements."""
    channel = await connect(job.address)
    took_ns: list[int] = []
    answers: set[asyncio.Task[None]] = set()
    sent = acknowledged = 0

    async def send(number: int) -> None:
        nonlocal acknowledged
        began = time.perf_counter_ns()
        request = send_request(job.topic, number % QUEUES, "WAIT\x01true\x02")
        answer = await channel.exchange(request.command(_BODY), timeout_ms=10_000)
        took_ns.append(time.perf_counter_ns() - began)
        if answer.code == ResponseCode.SUCCESS:
            acknowledged += 1
        elif answer.code != ResponseCode.SYSTEM_BUSY:
            raise Invalid(f"the broker answered code {answer.code}: {answer.remark}")

    async def until(deadline: float) -> None:
        nonlocal sent
        due = time.perf_counter()
        while (now := time.perf_counter()) < deadline:
            while due <= now:
                due += 1 / PACE_PER_S
                answer = asyncio.create_task(send(sent))
                answers.add(answer)
                answer.add_done_callback(answers.discard)
                sent += 1
            await asyncio.sleep(due - now)
        await asyncio.gather(*answers)

    try:
        await until(time.perf_counter() + prelude_s)
        took_ns.clear()
        cpu, began = CpuMeter(job.pids), time.perf_counter()
        await until(began + duration_s)
        tally = Tally.of(len(took_ns), time.perf_counter() - began, took_ns, 0, cpu)
    finally:
        channel.close()
    tally.acknowledged_total, tally.busy_total = acknowledged, sent - acknowledged
    return tally


def _read(address: str, topic: str, begun: Event, stop: Event) -> None:
    """Pull one queue after the other from its beginning, one answer at a time; the messages are not looked at."""
    with Asker(address) as asker:
        for queue in range(QUEUES):
            offset = 0
            while not stop.is_set():
                request = PullMessage(
                    consumer_group="bench-cold", topic=topic, queue_id=queue, queue_offset=offset,
                    max_msg_nums=PULL_COUNT, sys_flag=int(PullFlag.SUBSCRIPTION), commit_offset=0,
                    suspend_timeout_millis=0, sub_version=0, subscription="*", expression_type="TAG",
                )  # fmt: skip
                answer = asker.exchange(request)
                if answer.code != ResponseCode.SUCCESS:
                    break
                begun.set()
                offset = PullMessageReply.read(answer.ext).next_begin_offset
