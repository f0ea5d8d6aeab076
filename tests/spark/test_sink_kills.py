"""Exactly once, with the driver killed -9 in the middle of its batches: every row is there, and none is twice.

`COMETMQ_SINK_KILLS` and `COMETMQ_SINK_BATCHES` ask for more than `make test` does.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from .sink_kit import Served, served

KILLS = int(os.environ.get("COMETMQ_SINK_KILLS", "3"))
BATCHES = int(os.environ.get("COMETMQ_SINK_BATCHES", str(8 * KILLS)))
ROWS = 1000
LATE_S = 240.0


class Driver:
    """One life of the driver."""

    def __init__(self, server: Served, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.spark.sink_driver", server.address, "killed", str(folder)]
        self.log = folder / "driver.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def kill(self) -> None:
        """The driver and its JVM, at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def manifests(folder: Path) -> int:
    """How many batches were decided so far; old ones are tidied away, so the number of the last one tells."""
    return max((int(path.stem) + 1 for path in (folder / "log").glob("*/*.manifest")), default=0)


def halves(server: Served) -> int:
    return server.count("RMQ_SYS_TRANS_HALF_TOPIC")


@pytest.mark.timeout(LATE_S * (KILLS + 2))
def test_the_driver_is_killed_in_the_middle_of_batches(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    print(f"seed {seed}")
    (tmp_path / "in").mkdir()
    for number in range(BATCHES):
        rows = range(number * ROWS, (number + 1) * ROWS)
        (tmp_path / "in" / f"{number:04}.txt").write_text("".join(f"{row}\n" for row in rows))
    with served(tmp_path / "server") as server:
        server.create("killed")
        kills = 0
        while not (tmp_path / "complete").exists():
            driver = Driver(server, tmp_path)
            try:
                kills += _live(driver, server, tmp_path, chance, dies=kills < KILLS)
            finally:
                if driver.process.poll() is None:
                    driver.kill()
        assert kills == KILLS, "it was over before it could be killed"
        found = Counter(int(record.body) for record in server.records("killed"))
    assert found == Counter(range(BATCHES * ROWS)), f"seed {seed}"


def _live(driver: Driver, server: Served, folder: Path, chance: random.Random, *, dies: bool) -> bool:
    """Let the driver live until it ends, or kill it somewhere within a batch behind the first that it writes."""
    limit = time.monotonic() + LATE_S
    decided, sent = manifests(folder), halves(server)
    after = chance.choice(["sending", "deciding"])
    wait_s = chance.uniform(0, 0.3)
    while driver.process.poll() is None:
        assert time.monotonic() < limit, driver.log.read_text()[-3000:]
        if dies and (halves(server) > sent + ROWS if after == "sending" else manifests(folder) > decided + 1):
            time.sleep(wait_s)
            driver.kill()
            return True
        time.sleep(0.01)
    assert driver.process.returncode == 0, driver.log.read_text()[-3000:]
    return False
