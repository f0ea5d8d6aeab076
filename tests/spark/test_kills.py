"""Row 28: drivers, executors and brokers are killed while a topic goes into files and, exactly once, into a topic.

Spark is a standalone cluster of two workers; both queries are of one driver (`killed_driver.py`), which is killed -9
within a batch and started again on its checkpoints. Half-way the topic gets queues that were not there when the queries
began. Afterwards every number is in the files once, and in the other topic once. A driver that ends by itself is a
fault, unless Spark ended it in the one way that a crowded machine brings about: a death like a kill, and counted.

`make test` kills each once and has 100,000 messages; `make fault` makes it 30 kills and 1,000,000 messages.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from tests.fault.harness.restarting import start_again
from tests.fault.harness.rows import Row, share
from tests.original.registration import registered
from tests.spark.kit import Server
from tests.spark.sink_kit import Served, served
from tests.spark.standalone import SparkCluster, environment, standalone_cluster

pytestmark = pytest.mark.timeout(900 if share() is None else 0)

FULL_KILLS: Final = 30
FULL_MESSAGES: Final = 1_000_000
FIRST_SHARE: Final = 0.6  # of the messages are there at the beginning, the rest comes with the new queues
ROWS_MAX: Final = 8_000
STILL_S: Final = 300.0  # so long may nothing move
# Half messages of batches under way are many here, and asked about in vain.
CALM_CHECKS: Final = {"transactionCheckInterval": "5000", "transactionTimeOut": "5000"}
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
# Spark gives the Python process of a streaming reader ten seconds to start and connect, a limit that nothing configures
# (PythonWorkerFactory.createSimpleWorker), and ends the query if it is late. No code of ours has run there by then.
LATE_WORKER: Final = "a Python process did not connect within Spark's ten seconds"
LATE_WORKER_TOLD: Final = (
    r"(?m)^pyspark\.\S+\.StreamingQueryException: \[STREAM_FAILED\] .*: Python worker failed to connect back\.",
    r"(?m)^Caused by: java\.net\.SocketTimeoutException: Timed out while waiting for the Python worker to connect",
)
ENDED_BY_SPARK_MAX: Final = 2


class Trial:
    """A driver on a cluster, what it reads and writes, and what can be done to them."""

    def __init__(self, row: Row, folder: Path, server: Served, workers: SparkCluster) -> None:
        self.row, self.folder, self.server, self.workers = row, folder, server, workers
        self.topics = Server("comet", server.address)
        self.source, self.target = self.topics.topic(2), self.topics.topic(4)
        self.log = folder / "driver.log"
        self.driver = self.start_driver()

    # --- what is done

    def live(self, messages: int) -> None:
        """So many messages, and kills of all kinds, spread over them by chance."""
        row, first = self.row, int(messages * FIRST_SHARE)
        kinds = {"drivers": self.kill_driver, "executors": self.kill_executor, "brokers": self.kill_broker}
        order = [list(kinds)[number % len(kinds)] for number in range(row.count)]
        row.chance.shuffle(order)
        self.topics.send(self.source, range(first), queues=2)
        for number in row.each():
            if number == row.count // 2:
                self.topics.make(self.source, 4)
                self.topics.send(self.source, range(first, messages), queues=4)
            self.reach(2 * messages * (number + 1) // (row.count + 1))
            time.sleep(row.chance.uniform(0, 0.3))
            kinds[order[number]]()
            row.add(**{f"{order[number]}_killed": 1})
        self.reach(2 * messages)

    def start_driver(self) -> subprocess.Popen[bytes]:
        arguments = [self.workers.url, self.server.address, self.source, self.target, str(self.folder), str(ROWS_MAX)]
        command = [sys.executable, "-m", "tests.spark.killed_driver", *arguments]
        with open(self.log, "wb") as log:
            return subprocess.Popen(command, start_new_session=True, env=environment(), stdout=log, stderr=log)

    def kill_driver(self) -> None:
        """With its JVM, at once, while it sends a batch or has just decided one."""
        moment = self.row.chance.choice([self.manifests, lambda: self.server.count(HALF_TOPIC)])
        before = moment()
        self.until(lambda: moment() > before)
        time.sleep(self.row.chance.uniform(0, 0.3))
        self.mind_driver()
        self.end_driver()
        if any(last_of(query / "offsets") > last_of(query / "commits") for query in self.checkpoints):
            self.row.add(within_a_batch=1)
        self.driver = self.start_driver()

    def kill_executor(self) -> None:
        self.until(lambda: bool(self.workers.executors()))
        os.kill(self.row.chance.choice(self.workers.executors()), signal.SIGKILL)

    def kill_broker(self) -> None:
        self.server.broker.kill()
        start_again(self.server.broker, self.row)
        asyncio.run(registered(self.server.address))

    def mind_driver(self) -> None:
        """Start it again where Spark itself has ended it, which is counted; any other end is a fault."""
        if self.driver.poll() is not None:
            reason = end_by_spark(self.log.read_text(errors="replace"))
            ends: dict[str, int] = self.row.numbers.get("ended_by_spark", {})
            assert reason is not None and sum(ends.values()) < ENDED_BY_SPARK_MAX, self.told()
            self.row.numbers["ended_by_spark"] = {**ends, reason: ends.get(reason, 0) + 1}
            with suppress(ProcessLookupError):  # its JVM may outlive it for a moment
                os.killpg(self.driver.pid, signal.SIGKILL)
            self.driver = self.start_driver()

    def end_driver(self) -> None:
        if self.driver.poll() is None:
            os.killpg(self.driver.pid, signal.SIGKILL)
            self.driver.wait()

    def finish(self) -> list[int]:
        """Let the driver end; it tells count, distinct count, sum and largest of the numbers in the files."""
        (self.folder / "stop").touch()
        while self.driver.wait(STILL_S) != 0:
            self.mind_driver()
        found: list[int] = json.loads((self.folder / "files.json").read_text())
        return found

    # --- what is seen

    @property
    def checkpoints(self) -> list[Path]:
        return [self.folder / name / "checkpoint" for name in ("files", "topic")]

    def done(self) -> int:
        """Rows of the batches that the queries have committed, together."""
        return sum(rows_before(checkpoint) for checkpoint in self.checkpoints)

    def manifests(self) -> int:
        """Batches decided so far; old ones are tidied away, so the number of the last one tells."""
        return max((int(path.stem) + 1 for path in self.folder.glob("topic/log/*/*.manifest")), default=0)

    def reach(self, rows: int) -> None:
        self.until(lambda: self.done() >= rows)

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait, as long as the driver lives and rows come."""
        done, since_s = -1, time.monotonic()
        while not is_so():
            self.mind_driver()
            if (now := self.done()) > done:
                done, since_s = now, time.monotonic()
            assert time.monotonic() - since_s < STILL_S, f"{done} rows, and no more: {self.told()}"
            time.sleep(0.02)

    def told(self) -> str:
        """The errors that the driver named, and the end of its log: a stack of Spark's is longer than what is kept."""
        text = self.log.read_text(errors="replace")
        named = [line.strip()[:300] for line in text.splitlines() if re.search(r"(Exception|Error|failed)\b.*: ", line)]
        return "\n".join([*dict.fromkeys(named[-20:]), text[-1_500:]])


def end_by_spark(log: str) -> str | None:
    """Why Spark itself ended the driver that left this log; None if that is not the reason."""
    return LATE_WORKER if all(re.search(told, log) for told in LATE_WORKER_TOLD) else None


def last_of(folder: Path) -> int:
    """The last batch of which there is a file."""
    return max((int(path.name) for path in folder.glob("*") if path.name.isdecimal()), default=-1)


def rows_before(checkpoint: Path) -> int:
    """How many messages lie before the end of the last batch that is committed."""
    last = last_of(checkpoint / "commits")
    if last < 0:
        return 0
    offsets = json.loads((checkpoint / "offsets" / str(last)).read_text().splitlines()[2])
    return sum(
        offset
        for topic, brokers in offsets.items()
        if not topic.startswith("$")
        for queues in brokers.values()
        for offset in queues.values()
    )


def test_kills_of_all_kinds(tmp_path: Path) -> None:
    subject = "Spark: drivers, executors and brokers killed"
    with (
        Row(28, subject, trimmed=3, full=FULL_KILLS) as row,
        served(tmp_path / "server", **CALM_CHECKS) as server,
        standalone_cluster(tmp_path) as workers,
    ):
        messages = FULL_MESSAGES * row.count // FULL_KILLS
        trial = Trial(row, tmp_path, server, workers)
        try:
            trial.live(messages)
            in_files, in_topic = trial.finish(), server.numbers(trial.target)
        finally:
            trial.end_driver()
        row.add(messages=messages)
        wanted = [messages, messages, messages * (messages - 1) // 2, messages - 1]
        row.violations += judged("the files", in_files, wanted)
        row.violations += judged(
            "the topic", [len(in_topic), len(set(in_topic)), sum(in_topic), max(in_topic, default=-1)], wanted
        )
        if row.numbers.get("drivers_killed") and not row.numbers.get("within_a_batch"):
            row.violations.append("no driver was killed within a batch")


def test_only_a_late_python_process_is_an_end_by_spark() -> None:
    late = "Python worker failed to connect back."
    told = (
        f"org.apache.spark.SparkException: {late}\n\tat org.apache.spark…\n"
        "Caused by: java.net.SocketTimeoutException: Timed out while waiting for the Python worker to connect back\n"
        "pyspark.errors.exceptions.captured.StreamingQueryException: [STREAM_FAILED] Query [id = 1] terminated with "
        f"exception: {late} SQLSTATE: XXKST\n"
    )
    assert end_by_spark(told) == LATE_WORKER
    for other in (
        "",
        told.replace(f"exception: {late}", "exception: [OFFSETS_LOST] queue 0"),  # it was late before that
        told.replace("java.net.SocketTimeoutException: Timed out", "java.io.IOException: Python failed to start"),
        told.replace("pyspark.errors", "\tpyspark.errors"),
    ):
        assert end_by_spark(other) is None


def judged(where: str, found: list[int], wanted: list[int]) -> list[str]:
    told = "count, distinct count, sum and largest of the numbers"
    return [] if found == wanted else [f"{told} in {where} are {found}, not {wanted}"]
