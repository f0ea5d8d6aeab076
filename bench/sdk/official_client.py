"""Send or consume with the official rocketmq-python-client; see `programs.py` for the arguments and what is printed.

It runs in an environment that has nothing of CometMQ in it. The address is that of a gRPC proxy.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
)


class Count:
    def __init__(self):
        self.done = self.failed = 0
        self.lock = threading.Lock()

    def add(self, failed):
        with self.lock:
            self.done += not failed
            self.failed += failed

    def mark(self):
        return self.done, time.perf_counter(), time.process_time()

    def report(self, before):
        messages, elapsed_s, cpu_s = (now - then for now, then in zip(self.mark(), before, strict=True))
        print(json.dumps({"messages": messages, "elapsed_s": elapsed_s, "cpu_s": cpu_s, "failed": self.failed}))


def sends(address, topic, size, in_flight, parts):
    producer = Producer(ClientConfiguration(address, Credentials()), (topic,))
    producer.startup()
    count, window, body = Count(), threading.Semaphore(in_flight), bytes(size)

    def sent(future):
        count.add(future.exception() is not None)
        window.release()

    for part, span_s in enumerate(parts):
        before, until = count.mark(), time.perf_counter() + span_s
        while time.perf_counter() < until:
            window.acquire()
            message = Message()
            message.topic, message.body, message.tag = topic, body, "t"
            producer.send_async(message).add_done_callback(sent)
        if part:
            count.report(before)
    for _ in range(in_flight):
        window.acquire()
    producer.shutdown()


def push(address, topic, group, total, parts):
    count = Count()

    class Listener(MessageListener):
        def consume(self, message):
            count.add(not message.body)
            return ConsumeResult.SUCCESS

    consumer = PushConsumer(ClientConfiguration(address, Credentials()), group, Listener(), {topic: FilterExpression()})
    consumer.startup()
    while not count.done:
        time.sleep(0.001)
    for part, span_s in enumerate(parts):
        before, until = count.mark(), time.perf_counter() + span_s
        enough = total if part else total // 2
        while time.perf_counter() < until and count.done < enough:
            time.sleep(0.001)
        if part:
            count.report(before)


def main():
    what, address, topic, group, size, in_flight, warm_s, duration_s, total = sys.argv[1:]
    parts = float(warm_s), float(duration_s)
    if what == "sends":
        sends(address, topic, int(size), int(in_flight), parts)
    else:
        push(address, topic, group, int(total), parts)
    sys.stdout.flush()
    os._exit(0)  # its threads need seconds to end


if __name__ == "__main__":
    main()
