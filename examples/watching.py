"""See what a client does: its counters, and the trace that tools for RocketMQ read (`spans=True`: OpenTelemetry)."""

import asyncio
import os

from cometmq import LitePullConsumer, Message, Producer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def main() -> None:
    async with Producer("watched", namesrv=NAMESRV, trace=True) as producer:
        async with producer.pipeline() as pipeline:
            for number in range(10):
                await pipeline.send(Message("watched", b"%d" % number))
        counters = producer.counters
        print("sent", counters["sent"], "tried again", counters["retried"], "given up", counters["given_up"])

    message_id = pipeline.receipts[0].message_id
    async with LitePullConsumer("watchers", namesrv=NAMESRV, start_from="first") as consumer:
        await consumer.subscribe("RMQ_SYS_TRACE_TOPIC")
        async for line in consumer.messages():
            if message_id.encode() in line.body:
                print("the trace tells of", message_id)
                break


asyncio.run(main())
