"""Send or consume with CometMQ's SDK; see `programs.py` for the arguments and the line that is printed."""

from __future__ import annotations

import asyncio
import json
import sys
import time

import uvloop

from cometmq import Message, Producer, PushConsumer, ReceivedMessage

Mark = tuple[int, float, float]


class Count:
    done = 0

    def mark(self) -> Mark:
        return self.done, time.perf_counter(), time.process_time()

    def report(self, before: Mark) -> None:
        messages, elapsed_s, cpu_s = (now - then for now, then in zip(self.mark(), before, strict=True))
        print(json.dumps({"messages": messages, "elapsed_s": elapsed_s, "cpu_s": cpu_s, "failed": 0}))


async def sends(namesrv: str, topic: str, group: str, size: int, in_flight: int, parts: tuple[float, float]) -> None:
    body = bytes(size)
    async with Producer(group, namesrv=namesrv) as producer:
        count = Count()
        async with producer.pipeline(in_flight=in_flight, keep_receipts=False) as pipeline:
            for part, span_s in enumerate(parts):
                before, until = count.mark(), time.perf_counter() + span_s
                while time.perf_counter() < until:
                    await pipeline.send(Message(topic, body, tags="t"))
                    count.done += 1  # so many are acknowledged, but for a window at each end of the span
                if part:
                    count.report(before)


async def push(namesrv: str, topic: str, group: str, total: int, parts: tuple[float, float]) -> None:
    count = Count()

    async def hear(message: ReceivedMessage) -> None:
        if not message.body:
            raise ValueError("an empty message")
        count.done += 1

    async with PushConsumer(group, namesrv=namesrv, start_from="first").subscribe(topic, hear):
        while not count.done:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        for part, span_s in enumerate(parts):
            before, until = count.mark(), time.perf_counter() + span_s
            enough = total if part else total // 2
            while time.perf_counter() < until and count.done < enough:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            if part:
                count.report(before)


def main() -> None:
    what, namesrv, topic, group, size, in_flight, warm_s, duration_s, total = sys.argv[1:]
    parts = float(warm_s), float(duration_s)
    if what == "sends":
        uvloop.run(sends(namesrv, topic, group, int(size), int(in_flight), parts))
    else:
        uvloop.run(push(namesrv, topic, group, int(total), parts))


if __name__ == "__main__":
    main()
