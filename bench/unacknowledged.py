"""`python -m bench.unacknowledged`: what popped messages that nobody acknowledges cost in memory; and all come back.

A broker of its own gets `--count` small messages (1,000,000) and hands them out `--at-once` (one) at a time, each time
with a checkpoint; none is acknowledged, and all are to come back at one moment, the hardest case. The broker's
anonymous memory is read while they are handed out, and until all are in the retry topic. Some minutes. Exit code 0: it
grew by no more than `--limit-mb`, and as many came back as were handed out; 1: not so; 2: not measured.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.original import CometBroker, CometNamesrv
from tests.original.process import ServerFailed

from bench.arguments import positive
from bench.report import PAGE, put_between
from bench.results import Result, Run, path_of
from bench.runner import say
from bench.startup import anonymous_mb
from bench.tally import Invalid
from cometmq.errors import CometError
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.batch import encode_batch
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.consume import GetMaxOffset
from cometmq.wire.requests.pop import PopMessage, PopMessageReply
from cometmq.wire.requests.send import SendBatchMessage

TOPIC, GROUP = "unacknowledged", "forgetful"
LATEST: Final = "unacknowledged/latest"
BEGIN: Final = "<!-- bench unacknowledged: begin, written by `python -m bench.unacknowledged` -->"
END: Final = "<!-- bench unacknowledged: end -->"
COUNT: Final = 1_000_000
LIMIT_MB: Final = 200  # from the first tenth on; the timer makes up to 96 MiB ready for its next seconds
INVISIBLE_S: Final = 600
QUEUES: Final = 8
BATCH_COUNT: Final = 500
BODY_SIZE_MAX: Final = 16
IN_FLIGHT: Final = 64
LATE_S_MAX: Final = 300
ANSWER_MS_MAX: Final = 30_000  # on a busy machine; how long it took is kept
SAMPLES: Final = 10


class Memory:
    """A process's anonymous memory: after the first tenth of the pops, and the most that was seen since."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.first_mb = 0.0
        self.peak_mb = 0.0

    def note(self, done: int, what: str) -> None:
        now_mb = anonymous_mb([self._pid])
        self.first_mb = self.first_mb or now_mb
        self.peak_mb = max(self.peak_mb, now_mb)
        say(f"{done:>9,} {what:<11} {now_mb:7.1f} MB")


async def measure(result: Result, count: int, at_once: int, invisible_s: int, folder: Path) -> None:
    """Add the one run to the result."""
    with CometNamesrv(folder / "namesrv") as namesrv, CometBroker(folder / "broker", [namesrv.addr]) as broker:
        channel = await connect(broker.addr)
        try:
            memory = Memory(broker.pid)
            await _send(channel, count, random.Random(result.seed))
            began = time.monotonic()
            await _pop(channel, count, at_once, began + invisible_s, memory)
            took_s = time.monotonic() - began
            came, slowest_s = await _come_back(channel, count, memory, began + invisible_s + LATE_S_MAX)
        finally:
            channel.close()
    values = {
        "messages": count, "came_back": came, "rate_per_s": round(count / took_s, 1), "first_mb": memory.first_mb,
        "peak_mb": memory.peak_mb, "grown_mb": round(memory.peak_mb - memory.first_mb, 1),
        "slowest_answer_s": round(slowest_s, 3),
    }  # fmt: skip
    result.runs.append(Run("comet", 1, "unacknowledged", values))


async def _send(channel: Channel, count: int, chance: random.Random) -> None:
    for number in range(count // BATCH_COUNT):
        bodies = (chance.randbytes(chance.randint(1, BODY_SIZE_MAX)) for _ in range(BATCH_COUNT))
        request = SendBatchMessage(
            GROUP, TOPIC, "TBW102", QUEUES, number % QUEUES, 0, int(time.time() * 1000), 0, "", batch=True
        )
        await channel.call(request, encode_batch([(0, body, b"TAGS\x01a\x02") for body in bodies]))


async def _pop(channel: Channel, count: int, at_once: int, back_at: float, memory: Memory) -> None:
    """Hand out everything, invisible until one moment."""
    popped, step = 0, count // SAMPLES
    while popped < count:
        before, invisible_s = popped, back_at - time.monotonic()
        if invisible_s < 1:
            raise Invalid(f"{popped:,} were handed out when the first came back: give more --invisible")
        request = PopMessage(
            consumer_group=GROUP, topic=TOPIC, queue_id=-1, max_msg_nums=at_once,
            invisible_time=int(invisible_s * 1000), poll_time=0, born_time=0, init_mode=0,
        )  # fmt: skip
        answers = await asyncio.gather(
            *(channel.exchange(request.command()) for _ in range(min(IN_FLIGHT, (count - popped) // at_once + 1)))
        )
        popped += sum(_count(PopMessageReply.read(one.ext)) for one in answers if one.code == ResponseCode.SUCCESS)
        if popped // step > before // step:
            memory.note(popped, "handed out")


def _count(reply: PopMessageReply) -> int:
    parts = (reply.msg_offset_info or "").split(";")
    return sum(part.count(",") + 1 for part in parts if part)


async def _come_back(channel: Channel, count: int, memory: Memory, until: float) -> tuple[int, float]:
    """Wait until all are in the retry topic; says how many are, and how long the slowest answer took meanwhile."""
    said, came, slowest_s = 0, 0, 0.0
    request = GetMaxOffset(f"%RETRY%{GROUP}_{TOPIC}", 0)
    while came < count and (asked := time.monotonic()) < until:
        answer = await channel.exchange(request.command(), timeout_ms=ANSWER_MS_MAX)
        slowest_s = max(slowest_s, time.monotonic() - asked)
        came = int(answer.ext["offset"]) if answer.code == ResponseCode.SUCCESS else 0
        if came * SAMPLES // count > said:
            said = came * SAMPLES // count
            memory.note(came, "came back")
        await asyncio.sleep(0.2)
    return came, slowest_s


def judge(result: Result) -> Iterator[tuple[bool, str]]:
    values, limit_mb = result.runs[0].values, result.settings["limit_mb"]
    yield (
        values["grown_mb"] <= limit_mb,
        f"memory: {values['first_mb']:,} → {values['peak_mb']:,} MB at most, +{values['grown_mb']:,} (≤ {limit_mb} MB)",
    )
    yield (
        values["came_back"] == values["messages"],
        f"{values['messages']:,.0f} messages popped, none acknowledged, {values['came_back']:,.0f} came back",
    )


def verdicts(result: Result) -> list[str]:
    return [f"{'PASS' if passed else 'MISS'}  {words}" for passed, words in judge(result)]


def write(result: Result, page: Path = PAGE) -> None:
    lines = "\n".join(f"- {line}" for line in verdicts(result))
    facts = f"Commit `{result.commit}`, {result.date[:10]}, seed {result.seed}."
    put_between(page, BEGIN, END, f"{lines}\n\n{facts}")


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.report:
        write(Result.load(path_of(LATEST)))
        return 0
    count = max(options.count - options.count % BATCH_COUNT, BATCH_COUNT)
    settings = {"at_once": options.at_once, "invisible_s": options.invisible, "limit_mb": options.limit_mb}
    name = options.name or (LATEST if count >= COUNT and options.at_once == 1 else "scratch/unacknowledged")
    result = Result.begin(name, options.seed, 1, settings)
    try:
        with tempfile.TemporaryDirectory(prefix="cometmq-unacknowledged-", dir=options.scratch) as folder:
            asyncio.run(measure(result, count, options.at_once, options.invisible, Path(folder)))
    except (Invalid, ServerFailed, CometError) as fault:
        say(f"not measured: {fault}")
        return 2
    result.save()
    if name == LATEST:
        write(result)
    print("\n".join(verdicts(result)))
    return 0 if all(passed for passed, _ in judge(result)) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench.unacknowledged", description="Pops that nobody acknowledges.")
    parser.add_argument("--count", type=positive, default=COUNT, help="messages, in whole batches of 500 (1000000)")
    parser.add_argument("--at-once", type=positive, default=1, help="messages of a pop, and so of a checkpoint (1)")
    parser.add_argument(
        "--invisible",
        type=positive,
        default=INVISIBLE_S,
        help=f"seconds from the first pop until all come back ({INVISIBLE_S})",
    )
    parser.add_argument("--limit-mb", type=positive, default=LIMIT_MB, help=f"most that memory may grow ({LIMIT_MB})")
    parser.add_argument("--seed", type=int, help="of the bodies; kept in the result")
    parser.add_argument("--name", help=f"of the result in bench/results ({LATEST})")
    parser.add_argument("--scratch", help="where the store is kept while it runs; wants 4 GB (the temporary folder)")
    parser.add_argument("--report", action="store_true", help="write the lines again from the result in the tree")
    return parser


if __name__ == "__main__":
    sys.exit(main())
