"""What is measured, as data: each load for each side that has it, as Spark is told it.

    read      a batch query over the whole topic; of CometMQ's the columns that the query uses
    read_all  the same with all columns of a message, which Kafka's source cannot leave out
    files     the same over the store's files, without a broker
    stream    the whole topic as a stream that ends (Trigger.AvailableNow), in four batches
    sink      rows of 1 KiB written into a topic
    sink_exactly_once  the same with CometMQ's exactly-once guarantee, which Kafka's sink has not

Every query counts the rows and sums the lengths of the bodies, so bodies come all the way into Spark's JVM.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

SideName = Literal["kafka", "comet", "pure"]
SIDES: Final[tuple[SideName, ...]] = ("kafka", "comet", "pure")
Kind = Literal["read", "stream", "write", "copy", "make_topic"]

READ: Final = "read"
READ_ALL: Final = "read_all"
FILES: Final = "files"
STREAM: Final = "stream"
SINK: Final = "sink"
SINK_EXACTLY_ONCE: Final = "sink_exactly_once"
LOADS: Final = (READ, READ_ALL, FILES, STREAM, SINK, SINK_EXACTLY_ONCE)

TOPIC: Final = "bench-spark"
STREAM_BATCHES: Final = 4


@dataclass(frozen=True)
class Job:
    """One query; `body` is the column that the source has bodies in. `rows` is how many a write
    makes, `into` where a copy goes."""

    kind: Kind
    format: str
    options: Mapping[str, str]
    body: str
    rows: int = 0
    into: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))


@dataclass(frozen=True)
class Places:
    """Where the servers are, and what is in them."""

    namesrv: str
    broker: str
    kafka: str
    store: Path
    scratch: Path
    rows: int
    sink_rows: int


def copy_job(places: Places) -> Job:
    """Fill Kafka's topic from CometMQ's."""
    given = {"namesrvAddr": places.namesrv, "subscribe": TOPIC, "columns": "queue,body"}
    patient = {"kafka.request.timeout.ms": "300000", "kafka.delivery.timeout.ms": "600000"}
    into = {"kafka.bootstrap.servers": places.kafka, "topic": TOPIC, **patient}
    return Job("copy", "rocketmq", given, "body", into=into)


def topic_job(places: Places, topic: str) -> Job:
    """Make a topic in Kafka, and wait until it can be written to."""
    return Job("make_topic", "kafka", {"kafka.bootstrap.servers": places.kafka, "subscribe": topic}, "value")


def job_of(load: str, side: SideName, places: Places, turn: str) -> Job | None:
    """The load as a query; None if this side has no such load. `turn` makes names that were not used before."""
    return _kafka_job(load, places, turn) if side == "kafka" else _comet_job(load, places, turn)


def _kafka_job(load: str, places: Places, turn: str) -> Job | None:
    servers = {"kafka.bootstrap.servers": places.kafka}
    reading = {**servers, "subscribe": TOPIC, "startingOffsets": "earliest"}
    if load == READ:
        return Job("read", "kafka", reading, "value")
    if load == STREAM:
        return Job("stream", "kafka", {**reading, **_paced(places)}, "value")
    if load == SINK:
        return Job("write", "kafka", {**servers, "topic": f"sink-{turn}"}, "value", places.sink_rows)
    return None


def _comet_job(load: str, places: Places, turn: str) -> Job:
    servers = {"namesrvAddr": places.namesrv}
    needed = {"columns": "offset,body"}
    if load in (READ, READ_ALL):
        chosen = needed if load == READ else {}
        return Job("read", "rocketmq", {**servers, "subscribe": TOPIC, **chosen}, "body")
    if load == FILES:
        return Job("read", "rocketmq", {"storePath": str(places.store), "subscribe": TOPIC, **needed}, "body")
    if load == STREAM:
        whole = {"subscribe": TOPIC, "startingOffsets": "earliest"}
        return Job("stream", "rocketmq", {**servers, **whole, **needed, **_paced(places)}, "body")
    exactly = {"guarantee": "exactly-once", "sinkLog": str(places.scratch / f"sink-log-{turn}")}
    chosen = exactly if load == SINK_EXACTLY_ONCE else {}
    return Job("write", "rocketmq", {**servers, "topic": f"sink-{turn}", **chosen}, "body", places.sink_rows)


def _paced(places: Places) -> dict[str, str]:
    return {"maxOffsetsPerTrigger": str(-(-places.rows // STREAM_BATCHES))}
