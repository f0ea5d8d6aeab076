"""Rounds: one Spark, and the sides in turn, load by load, the order changed each round.

CometMQ's topic is filled first; Spark then copies it into Kafka, so both hold the same bodies in the same queues. Each
load runs once on each side before anything counts. Pure Python comes last and once, with a broker and a Spark of its
own on the same store. An idle server costs next to nothing, so none is stopped in the turns of others: their clients,
which Spark keeps, would take that for a failure.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.original.jars import class_path

from bench.ask import Asker, create_topic
from bench.filling import fill_topic
from bench.results import Result, Run
from bench.runner import order, say
from bench.servers import Side
from bench.spark.kafka import KafkaServer, source_jars
from bench.spark.loads import TOPIC, Job, Places, SideName, copy_job, job_of, topic_job
from bench.spark.process import SparkProgram
from bench.tally import Invalid
from bench.workloads import BODY_SIZE


class Runner(Protocol):
    """What a `SparkProgram` does."""

    def run(self, job: Job) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Plan:
    sides: tuple[SideName, ...]
    loads: tuple[str, ...]
    rounds: int
    rows: int
    sink_rows: int
    seed: int
    scratch: Path


def measure(plan: Plan, result: Result) -> None:
    """Run everything in the plan; each run is added to the result, and that is saved, as it ends."""
    jars = class_path(source_jars()) if "kafka" in plan.sides else ""  # all of CometMQ's turns have them too
    with ExitStack() as running:
        running.callback(shutil.rmtree, plan.scratch, ignore_errors=True)
        say(f"comet: start, and fill a topic with {plan.rows:,} messages")
        folder = plan.scratch / "comet"
        side = Side("comet", folder)
        running.callback(side.kill)
        side.start()
        rows = fill_topic(side, TOPIC, plan.rows, plan.seed)
        places = Places(side.namesrv_address, side.address, "", side.broker.store, plan.scratch, rows, plan.sink_rows)
        warm = tuple(name for name in plan.sides if name != "pure")
        if warm:
            _measure_warm(plan, warm, places, jars, result)
        if "pure" in plan.sides:
            say("pure: start on the same store")
            side.stop()
            pure = Side("pure", folder)
            running.callback(pure.kill)
            pure.start()
            places = dataclasses.replace(places, namesrv=pure.namesrv_address, broker=pure.address)
            with SparkProgram(plan.scratch / "spark-pure", jars, pure=True) as spark:
                for load in plan.loads:
                    measure_turn(plan, spark, load, "pure", places, 1, result)


def _measure_warm(plan: Plan, sides: tuple[SideName, ...], places: Places, jars: str, result: Result) -> None:
    with ExitStack() as running:
        spark = running.enter_context(SparkProgram(plan.scratch / "spark", jars))
        if "kafka" in sides:
            say(f"kafka: start, and copy {places.rows:,} messages into it")
            kafka = KafkaServer(plan.scratch / "kafka")
            running.callback(kafka.kill)
            kafka.start()
            places = dataclasses.replace(places, kafka=kafka.addr)
            spark.run(topic_job(places, TOPIC))
            spark.run(copy_job(places))
        for round_number in range(plan.rounds + 1):  # 0 warms up
            for load in plan.loads:
                for name in order(sides, round_number + 1):
                    measure_turn(plan, spark, load, name, places, round_number, result)


def measure_turn(
    plan: Plan, spark: Runner, load: str, side: SideName, places: Places, round_number: int, result: Result
) -> None:
    job = job_of(load, side, places, f"{side}-{load}-{round_number}")
    if job is None:
        return
    if job.kind == "write":
        _make_topic(spark, job, places)
    os.sync()
    values = _run(spark, job, places)
    shown = "  ".join(f"{key} {value:,g}" for key, value in values.items())
    say(f"{f'round {round_number}/{plan.rounds}' if round_number else 'warm up'}  {load:<17} {side:<6} {shown}")
    if round_number:
        result.runs.append(Run(side, round_number, f"spark_{load}", values))
        result.save()


def _make_topic(spark: Runner, job: Job, places: Places) -> None:
    topic = job.options["topic"]
    if job.format == "kafka":
        spark.run(topic_job(places, topic))
    else:
        with Asker(places.broker) as asker:
            create_topic(asker, topic)


def _run(spark: Runner, job: Job, places: Places) -> dict[str, float]:
    values = spark.run(job)
    rows = job.rows or places.rows
    if values["rows"] != rows or values["bytes"] != rows * BODY_SIZE:
        found = f"{values['rows']:,} rows with {values['bytes']:,} bytes"
        raise Invalid(f"{job.kind} {job.format}: {found}, where there are {rows:,} of {BODY_SIZE} bytes")
    del values["bytes"]
    return {**values, "elapsed_s": round(values["elapsed_s"], 3), "rate_per_s": round(rows / values["elapsed_s"], 1)}
