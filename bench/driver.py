"""The process that makes the load: a job as JSON on standard input, a tally as JSON on standard output.

It is a process of its own, so that nothing of the benchmark's bookkeeping runs in it; `run_job` also counts what
the queues of the topic grew by, because an acknowledged message that is not there makes every number worthless.
"""

from __future__ import annotations

import dataclasses
import gc
import json
import sys

from bench.ask import Asker, await_total, max_offsets
from bench.cold import run_cold
from bench.delivery import run_delivery
from bench.frames import Batches, Pulls, Sends
from bench.pops import run_pops
from bench.pump import Pump
from bench.single import run_single
from bench.tally import Invalid, Tally
from bench.timers import run_timers
from bench.workloads import BATCH_COUNT, PULL_COUNT, RECENT_COUNT, Job
from cometmq.errors import CometError


def run_job(job: Job) -> Tally:
    """Make the load, then compare what was acknowledged with what is in the queues."""
    with Asker(job.address) as asker:
        before = max_offsets(asker, job.topic)
        tally = _load(job, before)
        stored = tally.acknowledged_total if job.kind != "pulls" else 0
        grown = sum(await_total(asker, job.topic, sum(before) + stored)) - sum(before)
        if grown != stored:
            raise Invalid(f"{stored} messages were acknowledged, but the queues of {job.topic} grew by {grown}")
    return tally


def _load(job: Job, ends: list[int]) -> Tally:
    if job.kind == "sends":
        return Pump(job, Sends(job.topic, job.connections, job.chunk, job.seed), 1).run()
    if job.kind == "latency":
        return run_single(job, Sends(job.topic, 1, 1, job.seed))
    if job.kind == "batches":
        return Pump(job, Batches(job.topic, job.connections, job.seed), BATCH_COUNT).run()
    if job.kind == "delivery":
        return run_delivery(job, ends)
    if job.kind == "pops":
        return run_pops(job, ends)
    if job.kind == "cold":
        return run_cold(job)
    if job.kind == "timers":
        return run_timers(job, ends)
    ranges = [(max(0, end - RECENT_COUNT), end) for end in ends]
    return Pump(job, Pulls(job.topic, job.connections, ranges), PULL_COUNT, check_records=True).run()


def main() -> int:
    job = Job.from_json(sys.stdin.read())
    gc.disable()  # nothing here makes cycles, and a collection would land in someone's latency
    try:
        tally = run_job(job)
    except (Invalid, CometError, OSError, ValueError) as fault:
        print(json.dumps({"fault": f"{type(fault).__name__}: {fault}"}))
        return 1
    print(json.dumps(dataclasses.asdict(tally)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
