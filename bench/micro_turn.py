"""Microseconds that a turn of the broker takes, without sockets: what one read brings is served and answered.

    .venv/bin/python -m bench.micro_turn [--frames 64] [--rounds 1500] [--flush ASYNC_FLUSH | SYNC_FLUSH]

A real broker with its store on disk; the transport below a channel only swallows. Of many turns the quickest is told,
in CPU time of the event loop's thread: what disturbs a turn only makes it slower, so the figure holds on a busy machine
too, and waiting for the disk is not in it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

from bench.frames import OPAQUE_FIRST, Batches, Load, Pulls, Sends
from bench.workloads import BATCH_COUNT, PULL_COUNT, QUEUES
from cometmq.broker.app import Broker, load_settings
from cometmq.cli.serve import COLLECT_AFTER
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.net.routes import Routes
from cometmq.net.server import Server
from cometmq.wire.requests.admin import CreateTopic

TURNS = 3  # of the loop, until what was answered is dispatched


class Swallow(asyncio.Transport):
    """Takes what is written and forgets it."""

    answered_at = 0
    answered: asyncio.Future[None] | None = None  # for who awaits the next write

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1234) if name == "peername" else default

    def write(self, data: Any) -> None:
        self.answered_at = time.thread_time_ns()
        if self.answered is not None and not self.answered.done():
            self.answered.set_result(None)

    def writelines(self, pieces: Any) -> None:
        self.write(b"".join(pieces))

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def blocks(load: Load, rounds: int) -> Iterator[bytes]:
    return (bytes(load.next_block(0, OPAQUE_FIRST + number).data) for number in range(rounds))


class Turns:
    """Feeds one channel of a broker."""

    def __init__(self, channel: Channel, transport: Swallow) -> None:
        self._channel = channel
        self._transport = transport

    async def measure(self, name: str, load: Load, rounds: int, messages: int) -> None:
        """Of a turn: all of it, and until the answer is written."""
        loop = asyncio.get_running_loop()
        whole, until_answer = [], []
        for data in blocks(load, rounds):
            began = time.thread_time_ns()
            answered = self._transport.answered = loop.create_future()
            self._channel.data_received(data)
            await answered
            for _ in range(TURNS):
                await asyncio.sleep(0)
            whole.append(time.thread_time_ns() - began)
            until_answer.append(self._transport.answered_at - began)
        best, median, answer = min(whole), statistics.median(whole), min(until_answer)
        print(
            f"{name:24} {best / messages / 1000:7.2f} µs a message, best turn; {median / messages / 1000:7.2f} median;"
            f" turn {best / 1000:8.1f} µs, answered after {answer / 1000:8.1f} µs"
        )

    def measure_reading(self, name: str, load: Load, rounds: int, messages: int) -> None:
        """Of the turn, what it takes to cut and read the frames."""
        reader = Channel(lambda channel, command: None)
        best = min(_cost(lambda data=data: reader.data_received(data)) for data in blocks(load, rounds))  # type: ignore[misc]
        print(f"{name:24} {best / messages / 1000:7.2f} µs a message")


def _cost(call: Callable[[], Any]) -> int:
    began = time.thread_time_ns()
    call()
    return time.thread_time_ns() - began


async def run(frames: int, rounds: int, flush: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = {"storePathRootDir": folder, "listenPort": "0", "flushDiskType": flush}
        broker = Broker(load_settings({**settings, "brokerIP1": "127.0.0.1"}))
        await broker.start()
        client = await connect(broker.address)
        for topic in ("sends", "batches"):
            await client.call(
                CreateTopic(
                    topic=topic, default_topic="TBW102", read_queue_nums=QUEUES, write_queue_nums=QUEUES, perm=6,
                    topic_filter_type="SINGLE_TAG",
                )
            )  # fmt: skip
        transport = Swallow()
        every = gc.get_objects()  # the broker shows its own to nobody
        routes = max((item for item in every if isinstance(item, Routes)), key=lambda routes: len(routes.codes))
        lane = next((item.lane for item in every if isinstance(item, Server) and item.lane is not None), None)
        gc.freeze()
        gc.set_threshold(COLLECT_AFTER, 20, 20)  # as `cometmq broker` does
        channel = Channel(routes.answer, lane=lane)
        channel.connection_made(cast(asyncio.BaseTransport, transport))
        turns = Turns(channel, transport)
        turns.measure_reading(f"{frames} sends, reading", Sends("sends", 1, frames, 1), rounds, frames)
        await turns.measure(f"{frames} sends", Sends("sends", 1, frames, 1), rounds, frames)
        keyed = Sends("sends", 1, frames, 1, with_keys=True)
        await turns.measure(f"{frames} sends with KEYS", keyed, rounds, frames)
        await turns.measure("a lone send", Sends("sends", 1, 1, 2), rounds * 2, 1)
        await turns.measure(f"a batch of {BATCH_COUNT}", Batches("batches", 1, 1), rounds // 2, BATCH_COUNT)
        stored = rounds * frames // QUEUES
        await turns.measure(f"a pull of {PULL_COUNT}", Pulls("sends", 1, [(0, stored)] * QUEUES), rounds, PULL_COUNT)
        client.close()
        await broker.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=1500)
    parser.add_argument("--flush", default="ASYNC_FLUSH", choices=["ASYNC_FLUSH", "SYNC_FLUSH"])
    args = parser.parse_args()
    try:
        import uvloop
    except ImportError:
        asyncio.run(run(args.frames, args.rounds, args.flush))
    else:
        uvloop.run(run(args.frames, args.rounds, args.flush))


if __name__ == "__main__":
    main()
