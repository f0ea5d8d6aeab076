"""Consumer lag and topics as tables: `option("table", "lag")`, `option("list", "topics")`.

    lag      group topic broker queue committed low high lag           of one group (`consumerGroup`), or of all
    topics   topic cluster broker address read_queues write_queues perm messages

Lag is told of every queue of a topic of which the group has committed any, on whatever broker: so one task reads it.
The table of topics has a task for each broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow
from pyspark.sql.datasource import DataSourceReader, InputPartition

from cometmq.errors import InvalidArgument
from cometmq.model.queue import MessageQueue
from cometmq.model.route import MASTER_ID
from cometmq.spark.carried import carried
from cometmq.spark.cluster import Cluster, cluster_of, patiently, perm_text
from cometmq.spark.connecting import CONNECTING, client_of
from cometmq.spark.options import Words, group_of
from cometmq.wire import fastjson
from cometmq.wire.bodies.reading import as_object
from cometmq.wire.requests.consume import GetAllConsumerOffset

_TEXT: Final = pyarrow.string()
_LAG: Final = pyarrow.schema(
    [
        ("group", _TEXT),
        ("topic", _TEXT),
        ("broker", _TEXT),
        ("queue", pyarrow.int32()),
        ("committed", pyarrow.int64()),
        ("low", pyarrow.int64()),
        ("high", pyarrow.int64()),
        ("lag", pyarrow.int64()),
    ]
)
_TOPICS: Final = pyarrow.schema(
    [
        ("topic", _TEXT),
        ("cluster", _TEXT),
        ("broker", _TEXT),
        ("address", _TEXT),
        ("read_queues", pyarrow.int32()),
        ("write_queues", pyarrow.int32()),
        ("perm", _TEXT),
        ("messages", pyarrow.int64()),
    ]
)

Rows = list[dict[str, Any]]


def server_schema(name: str) -> pyarrow.Schema:
    return _LAG if name == "lag" else _TOPICS


def check_options(words: Words, name: str) -> None:
    """Refuse what does not go with such a table."""
    own = ("consumerGroup",) if name == "lag" else ()
    words.check_known((*CONNECTING, "table", "list", "columns", *own), f"the table {name}")


class ServerTableReader(DataSourceReader):
    """Asks every broker."""

    def __init__(self, given: Mapping[str, str], name: str, columns: Sequence[str]) -> None:
        self._given = dict(given)
        self._name = name
        self._columns = tuple(columns)
        words = Words(given)
        check_options(words, name)
        self._options = client_of(words)
        self._retry_ms = words.number("retryTimeoutMs", at_least=0) if "retryTimeoutMs" in words else 30_000
        self._group = group_of(words, "consumerGroup")

    def __reduce__(self) -> tuple[Any, ...]:
        return carried(ServerTableReader, self._given, self._name, self._columns)

    def partitions(self) -> Sequence[InputPartition]:
        info = patiently(lambda: cluster_of(self._options).info(), self._retry_ms or 0, "asking for the brokers")
        if not info.brokers:
            raise InvalidArgument(f"no broker is registered with the name servers ({self._options.namesrv})")
        brokers = sorted(info.brokers)
        return [InputPartition(brokers)] if self._name == "lag" else [InputPartition([broker]) for broker in brokers]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        brokers = partition.value
        if brokers is None:
            return
        look = self._lag if self._name == "lag" else self._topics
        what = f"asking {', '.join(brokers)}"
        rows = patiently(lambda: look(cluster_of(self._options), brokers), self._retry_ms or 0, what)
        whole = server_schema(self._name)
        fields = [whole.field(name) for name in self._columns]
        arrays = [pyarrow.array([row[field.name] for row in rows], field.type) for field in fields]
        if rows:
            yield pyarrow.RecordBatch.from_arrays(arrays, schema=pyarrow.schema(fields))

    def _lag(self, cluster: Cluster, brokers: Sequence[str]) -> Rows:
        cluster.info()
        committed: dict[tuple[str, MessageQueue], int | None] = {}
        for broker in brokers:
            (answer,) = cluster.call_all(broker, [GetAllConsumerOffset()])
            fields = as_object(fastjson.loads(answer.body), "the offsets")
            for key, offsets in as_object(fields.get("offsetTable") or {}, "offsetTable").items():
                topic, _, group = str(key).rpartition("@")
                if self._group is None or group == self._group:
                    for queue, offset in as_object(offsets, str(key)).items():
                        committed[group, MessageQueue(topic, broker, int(queue))] = int(offset)
        readable = {topic: cluster.readable(topic) for topic in {str(queue.topic) for _, queue in committed}}
        for group, topic in {(group, str(queue.topic)) for group, queue in committed}:
            for place in readable[topic]:
                committed.setdefault((group, place), None)
        spans = cluster.spans({queue for _, queue in committed})
        return [
            {
                "group": group,
                "topic": queue.topic,
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "committed": offset,
                "low": spans[queue].low,
                "high": spans[queue].high,
                "lag": spans[queue].high - (spans[queue].low if offset is None else offset),
            }
            for (group, queue), offset in sorted(committed.items(), key=lambda item: item[0])
        ]

    def _topics(self, cluster: Cluster, brokers: Sequence[str]) -> Rows:
        rows: Rows = []
        (broker,) = brokers
        for topic in sorted(cluster.topics()):
            route = cluster.route(topic)
            for data in route.queues if route is not None else ():
                if data.broker_name != broker or route is None:
                    continue
                own = next((one for one in route.brokers if one.broker_name == broker), None)
                spans = cluster.spans([MessageQueue(topic, broker, number) for number in range(data.read_queue_nums)])
                rows.append(
                    {
                        "topic": topic,
                        "cluster": own.cluster if own else None,
                        "broker": broker,
                        "address": own.addrs.get(MASTER_ID) if own else None,
                        "read_queues": data.read_queue_nums,
                        "write_queues": data.write_queue_nums,
                        "perm": perm_text(data.perm),
                        "messages": sum(span.high - span.low for span in spans.values()),
                    }
                )
        return rows
