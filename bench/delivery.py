"""From producer to consumer: messages sent at a steady pace, and pulls that wait for them at the broker.

What is timed is what a listener of a push consumer sees: from just before the send to the moment when the answer that
carries the message has been read. Both ends are in this process, so one clock serves.
"""

from __future__ import annotations

import asyncio
import time
from struct import Struct
from typing import Final

from bench.cpu import CpuMeter
from bench.frames import send_request
from bench.tally import Invalid, Tally
from bench.workloads import BODY_SIZE, PULL_COUNT, QUEUES, Job
from cometmq.model.sysflag import PullFlag
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import decode_records
from cometmq.wire.requests.consume import PullMessage, PullMessageReply
from cometmq.wire.requests.send import SendMessageV2

PACE_PER_S: Final = 1_000
SUSPEND_MS: Final = 15_000
ARRIVE_TIMEOUT_S: Final = 10.0

_STAMP: Final = Struct(">q")
_PADDING: Final = b"x" * (BODY_SIZE - _STAMP.size)


def run_delivery(job: Job, ends: list[int]) -> Tally:
    """Send for the job's time; `ends` is where the queues stand before."""
    return asyncio.run(_Delivery(job).run(ends))


class _Delivery:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._sent = 0
        self._arrived: list[tuple[int, int]] = []  # sent at, took

    async def run(self, ends: list[int]) -> Tally:
        job = self._job
        producer, consumer = await connect(job.address), await connect(job.address)
        pulling = [asyncio.create_task(self._pull(consumer, queue, end)) for queue, end in enumerate(ends)]
        try:
            await self._send(producer, time.perf_counter() + job.prelude_s)
            began_ns, cpu = time.perf_counter_ns(), CpuMeter(job.pids)
            await self._send(producer, time.perf_counter() + job.duration_s)
            elapsed_s = (time.perf_counter_ns() - began_ns) / 1e9
            await self._await_all(pulling)
        finally:
            for task in pulling:
                task.cancel()
            producer.close()
            consumer.close()
        took_ns = [took for sent_at, took in self._arrived if sent_at >= began_ns]
        tally = Tally.of(len(took_ns), elapsed_s, took_ns, 0, cpu)
        tally.acknowledged_total = self._sent
        return tally

    async def _send(self, channel: Channel, deadline: float) -> None:
        """One message each 1 / PACE_PER_S seconds; those that are late leave at once."""
        due = time.perf_counter()
        answers: set[asyncio.Task[object]] = set()
        while (now := time.perf_counter()) < deadline:
            while due <= now:
                due += 1 / PACE_PER_S
                body = _STAMP.pack(time.perf_counter_ns()) + _PADDING
                answer = asyncio.create_task(channel.call(self._message(self._sent % QUEUES), body))
                answers.add(answer)
                answer.add_done_callback(answers.discard)
                self._sent += 1
            await asyncio.sleep(due - now)
        await asyncio.gather(*answers)

    async def _pull(self, channel: Channel, queue: int, offset: int) -> None:
        while True:
            request = PullMessage(
                consumer_group="bench-delivery", topic=self._job.topic, queue_id=queue, queue_offset=offset,
                max_msg_nums=PULL_COUNT, sys_flag=int(PullFlag.SUSPEND | PullFlag.SUBSCRIPTION), commit_offset=0,
                suspend_timeout_millis=SUSPEND_MS, sub_version=0, subscription="*", expression_type="TAG",
            )  # fmt: skip
            answer = await channel.exchange(request.command(), timeout_ms=2 * SUSPEND_MS)
            now_ns = time.perf_counter_ns()
            offset = PullMessageReply.read(answer.ext).next_begin_offset
            if answer.code != ResponseCode.SUCCESS:
                continue
            for record in decode_records(answer.body):
                (sent_at,) = _STAMP.unpack_from(record.body)
                self._arrived.append((sent_at, now_ns - sent_at))

    async def _await_all(self, pulling: list[asyncio.Task[None]]) -> None:
        deadline = time.perf_counter() + ARRIVE_TIMEOUT_S
        while len(self._arrived) < self._sent:
            for task in pulling:
                if task.done():
                    await task  # a pull never ends but by failing
            if time.perf_counter() > deadline:
                raise Invalid(f"{len(self._arrived)} of {self._sent} messages arrived")
            await asyncio.sleep(0.01)
        if len(self._arrived) > self._sent:
            raise Invalid(f"{self._sent} messages were sent, and {len(self._arrived)} arrived")

    def _message(self, queue: int) -> SendMessageV2:
        key = f"{self._job.seed & 0xFFFFFFFF:08X}{self._sent:024X}"
        return send_request(self._job.topic, queue, f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02")
