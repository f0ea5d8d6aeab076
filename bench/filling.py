"""Topics to be read: filled with batches before anything is measured."""

from __future__ import annotations

from typing import Final

from bench.ask import Asker, create_topic, max_offsets
from bench.driver import run_job
from bench.servers import Side
from bench.tally import Invalid
from bench.workloads import Job

_PIECE_S: Final = 0.5


def fill_topic(side: Side, topic: str, at_least: int, seed: int) -> int:
    """Make a topic of `at_least` messages; returns how many it has."""
    with Asker(side.address) as asker:
        create_topic(asker, topic)
        total = 0
        while total < at_least:
            job = Job("batches", side.address, topic, 2, 2, 1, 0.0, _PIECE_S, seed, side.pids)
            try:
                run_job(job)
            except Invalid:  # a cold JVM may answer nothing but "busy" for a while
                continue
            total = sum(max_offsets(asker, topic))
    return total
