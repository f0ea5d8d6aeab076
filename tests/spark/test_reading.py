"""Reading as the tasks do it, without Spark around it: every message once, whatever the ranges, filters and limits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from datetime import UTC, datetime

import pyarrow
import pytest
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, In, InputPartition, LessThan
from tests.spark.kit import Server, message, numbers_of, read_all, read_tasks, reader_of, source

from cometmq import Message, Producer
from cometmq.columns import COLUMNS
from cometmq.errors import CometError, InvalidArgument, OffsetsLost, PeerUnreachable, ProtocolError, TopicNotFound
from cometmq.model.queue import MessageQueue
from cometmq.model.sysflag import MessageFlag, Perm
from cometmq.net.pool import connect
from cometmq.spark import pulling
from cometmq.spark.batch import BatchReader, NarrowingReader
from cometmq.spark.cluster import cluster_of
from cometmq.spark.offsets import Range
from cometmq.spark.options import Words, client_of
from cometmq.testing.chaos_proxy import ChaosProxy
from cometmq.testing.local_cluster import LocalCluster
from cometmq.wire.requests.admin import CreateTopic
from cometmq.wire.requests.send import SendMessage

MANY = range(1000)


@pytest.fixture(scope="module")
def filled() -> dict[str, str]:
    return {}


@pytest.fixture
def topic(server: Server, filled: dict[str, str]) -> str:
    """Numbers 0 to 999 in four queues; one for all tests of a server."""
    if server.kind not in filled:
        filled[server.kind] = server.topic()
        server.send(filled[server.kind], MANY)
    return filled[server.kind]


def starting(topic: str, *offsets: int) -> str:
    return json.dumps({topic: {"broker-a": {str(queue): offset for queue, offset in enumerate(offsets)}}})


def test_what_is_popped_is_no_retry_yet(server: Server, popped: tuple[str, str]) -> None:
    """It comes back in its time, for `test_retries_of_pop_come_with_their_group` in test_streaming.py."""
    assert read_all(server.options(retry=popped[0])).num_rows in (0, 3)


def test_every_message_is_read_once(server: Server, topic: str) -> None:
    table = read_all(server.options(subscribe=topic))
    assert table.column_names == list(COLUMNS)
    assert numbers_of(table) == list(MANY)
    row = table.filter(pyarrow.compute.equal(table.column("keys"), "key-21")).to_pylist()[0]
    assert (row["topic"], row["broker"], row["queue"], row["offset"], row["tags"]) == (topic, "broker-a", 1, 5, "three")
    assert dict(row["properties"])["number"] == "21"
    assert abs((datetime.now(UTC) - row["store_time"]).total_seconds()) < 600
    assert row["message_id"] and row["born_host"].startswith("127.0.0.1:") and row["reconsume_times"] == 0


@pytest.mark.parametrize("partitions", [1, 4, 7, 30])
def test_queues_are_cut_for_more_tasks(server: Server, topic: str, partitions: int) -> None:
    reader = reader_of(server.options(subscribe=topic, minPartitions=partitions))
    tasks = reader.partitions()
    assert len(tasks) >= partitions
    assert numbers_of(read_tasks(reader, tasks)) == list(MANY)


def test_tasks_have_a_size(server: Server, topic: str) -> None:
    reader = reader_of(server.options(subscribe=topic, maxRecordsPerPartition=99))
    tasks = reader.partitions()
    assert max(sum(Range(*one).rows for one in task.value) for task in tasks) <= 99
    assert numbers_of(read_tasks(reader, tasks)) == list(MANY)


def test_columns_are_chosen(server: Server, topic: str) -> None:
    assert read_all(server.options(subscribe=topic, columns="offset, body")).column_names == ["offset", "body"]
    assert "body" not in read_all(server.options(subscribe=topic, includeBody="false")).column_names


def test_offsets_say_where(server: Server, topic: str) -> None:
    table = read_all(
        server.options(
            subscribe=topic,
            startingOffsets=starting(topic, 10, -2, -1, 249),
            endingOffsets=starting(topic, 20, 5, -1, 250),
        )
    )
    assert numbers_of(table) == sorted([*range(40, 80, 4), *range(1, 21, 4), 999])


def test_single_queues_are_assigned(server: Server, topic: str) -> None:
    table = read_all(server.options(assign=json.dumps({topic: {"broker-a": [1, 3]}})))
    assert numbers_of(table) == [number for number in MANY if number % 2]


def test_a_pattern_chooses_topics(server: Server, topic: str) -> None:
    assert numbers_of(read_all(server.options(subscribePattern=f"(?:{topic})"))) == list(MANY)
    assert read_all(server.options(subscribePattern="no-such-.*")).num_rows == 0


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"tags": "three"}, [number for number in MANY if number % 3 == 0]),
        ({"tags": "three || other"}, list(MANY)),
        ({"tags": "none"}, []),
        ({"sqlFilter": "number BETWEEN 5 AND 7 OR TAGS = 'no'"}, [5, 6, 7]),
        ({"sqlFilter": "TAGS = 'three' AND number IS NOT NULL"}, [number for number in MANY if number % 3 == 0]),
    ],
    ids=str,
)
def test_brokers_filter(server: Server, topic: str, given: dict[str, str], wanted: list[int]) -> None:
    table = read_all(server.options(subscribe=topic, columns="body", minPartitions=9, **given))
    assert table.column_names == ["body"]
    assert numbers_of(table) == wanted


def test_times_say_where(server: Server) -> None:
    topic = server.topic(2)
    server.send(topic, range(100), queues=2)
    time.sleep(0.05)
    between_ms = int(time.time() * 1000)
    time.sleep(0.05)
    server.send(topic, range(100, 200), queues=2)
    later = between_ms + 600_000
    options = server.options(subscribe=topic)
    assert numbers_of(read_all({**options, "startingTimestamp": str(between_ms)})) == list(range(100, 200))
    assert numbers_of(read_all({**options, "endingTimestamp": str(between_ms)})) == list(range(100))
    assert numbers_of(read_all({**options, "endingTimestamp": str(later)})) == list(range(200))
    by_queue = json.dumps({topic: {"broker-a": {"0": 0, "1": between_ms}}})
    wanted = sorted([*range(0, 200, 2), *range(101, 200, 2)])
    assert numbers_of(read_all({**options, "startingOffsetsByTimestamp": by_queue})) == wanted
    by_topic = json.dumps({topic: between_ms})
    assert numbers_of(read_all({**options, "endingOffsetsByTimestamp": by_topic})) == list(range(100))
    with pytest.raises(InvalidArgument, match="startingOffsetsByTimestampStrategy=latest"):
        read_all({**options, "startingTimestamp": str(later)})
    late = {"startingTimestamp": str(later), "startingOffsetsByTimestampStrategy": "latest"}
    assert read_all({**options, **late}).num_rows == 0


def test_a_group_says_where(server: Server) -> None:
    topic = server.topic(2)
    server.send(topic, range(100), queues=2)
    options = server.options(subscribe=topic, consumerGroup=f"g-{topic}", startingOffsets="committed")
    assert numbers_of(read_all(options)) == list(range(100))  # it was nowhere yet; and from now on brokers know it
    cluster = cluster_of(client_of(Words(options)))
    cluster.commit(f"g-{topic}", {MessageQueue(topic, "broker-a", 1): 40})
    assert numbers_of(read_all(options)) == sorted([*range(0, 100, 2), *range(81, 100, 2)])
    before = {**options, "startingOffsets": "earliest", "endingOffsets": "committed"}
    assert numbers_of(read_all(before)) == list(range(1, 81, 2))
    lag = read_all(server.options(table="lag", consumerGroup=f"g-{topic}")).to_pylist()
    found = [(row["queue"], row["committed"], row["high"], row["lag"]) for row in lag]
    assert found == [(0, None, 50, 50), (1, 40, 50, 10)]


@pytest.mark.parametrize(
    ("filters", "rows_max", "wanted"),
    [
        ([EqualTo(("tags",), "three"), EqualTo(("queue",), 2)], 250, 83),
        ([In(("queue",), (0, 1)), GreaterThanOrEqual(("offset",), 100), LessThan(("offset",), 110)], 20, 20),
        ([EqualTo(("keys",), "key-77")], 1, 1),
        ([EqualTo(("keys",), "no such key")], 0, 0),
        ([LessThan(("store_time",), datetime(2020, 1, 1, tzinfo=UTC))], 0, 0),
        ([GreaterThanOrEqual(("store_time",), datetime(2020, 1, 1, tzinfo=UTC))], 1000, 1000),
        ([EqualTo(("topic",), "another")], 0, 0),
        ([EqualTo(("broker",), "broker-a"), EqualTo(("reconsume_times",), 0)], 1000, 1000),
    ],
    ids=str,
)
def test_conditions_are_pushed_down(
    server: Server, topic: str, filters: list[object], rows_max: int, wanted: int
) -> None:
    reader = reader_of(server.options(subscribe=topic, pushdown="true"))
    assert isinstance(reader, NarrowingReader)
    assert list(reader.pushFilters(filters)) == filters  # Spark tests them all again
    tasks = reader.partitions()
    assert sum(Range(*one).rows for task in tasks for one in task.value) <= rows_max
    made, arguments = reader.__reduce__()  # as it travels to the tasks
    assert read_tasks(made(*arguments), tasks).num_rows == wanted


def test_dead_letters_may_not_be_there_yet(server: Server) -> None:
    assert read_all(server.options(dlq="nobody")).num_rows == 0
    assert read_all(server.options(retry="nobody")).num_rows == 0
    name = "%DLQ%broken-" + server.kind
    server.send(server.make(name, 1), range(5), queues=1)
    assert numbers_of(read_all(server.options(dlq=f"broken-{server.kind}"))) == list(range(5))


def test_topics_are_a_table(server: Server, topic: str) -> None:
    rows = read_all(server.options(list="topics", columns="topic,broker,read_queues,perm,messages")).to_pylist()
    assert [row for row in rows if row["topic"] == topic] == [
        {"topic": topic, "broker": "broker-a", "read_queues": 4, "perm": "RW", "messages": 1000}
    ]


def test_traces_are_a_table(server: Server) -> None:
    topic = server.topic(1)

    async def send() -> None:
        async with Producer("traced", namesrv=server.namesrv, trace=True) as producer:
            await producer.send(Message(topic, b"1234", tags="t", keys=["k"]))

    asyncio.run(send())
    deadline_s = time.monotonic() + 30
    rows: list[dict[str, object]] = []
    while not rows:
        assert time.monotonic() < deadline_s
        with contextlib.suppress(TopicNotFound):  # the first send makes it
            rows = [row for row in read_all(server.options(table="trace")).to_pylist() if row["topic"] == topic]
    (row,) = rows
    reader = reader_of(server.options(table="trace", pushdown="true"))
    reader.pushFilters([EqualTo((name,), row[name]) for name in ("topic", "tags", "keys", "queue", "offset")])
    tasks = reader.partitions()
    assert sum(Range(*one).rows for task in tasks for one in task.value) == 1
    assert row in read_tasks(reader, tasks).to_pylist()
    assert (row["kind"], row["tags"], row["keys"], row["body_size"], row["group"]) == ("Pub", "t", "k", 4, "traced")
    assert row["success"] is True and row["message_type"] == "Normal"


def test_batches_of_a_batch_topic_are_opened(server: Server) -> None:
    topic = server.topic(1, **{"queue.type": "BatchCQ"})
    server.send(topic, range(100), queues=1)
    assert numbers_of(read_all(server.options(subscribe=topic))) == list(range(100))
    assert numbers_of(read_all(server.options(subscribe=topic, minPartitions=7))) == list(range(100))
    wanted = list(range(0, 100, 3))
    assert numbers_of(read_all(server.options(subscribe=topic, tags="three", minPartitions=7))) == wanted
    with pytest.raises(InvalidArgument, match=f"sqlFilter does not go with the topic {topic}"):
        read_all(server.options(subscribe=topic, sqlFilter="number > 5"))
    reader = reader_of(server.options(subscribe=topic, pushdown="true"))
    reader.pushFilters([EqualTo(("tags",), "three"), EqualTo(("keys",), "key-60")])
    revive, arguments = reader.__reduce__()
    assert 60 in numbers_of(read_tasks(revive(*arguments), reader.partitions()))
    server.send(topic, [100], queues=1)  # a batch of one
    assert numbers_of(read_all(server.options(subscribe=topic))) == list(range(101))


def test_keys_may_have_any_sign_but_a_space(server: Server) -> None:
    topic = server.topic(1)
    keys = ["a\tb", "\u8ba2\u5355\u3000\u53f7", "x\u00a0y"]

    async def send() -> None:
        async with Producer("spark-tests", namesrv=server.namesrv) as producer:
            for key in keys:
                await producer.send(Message(topic, key.encode(), keys=[key]))

    asyncio.run(send())
    deadline_s = time.monotonic() + 30
    while read_all(server.options(subscribe=topic)).num_rows < len(keys):
        assert time.monotonic() < deadline_s
    for key in keys:
        reader = reader_of(server.options(subscribe=topic, pushdown="true"))
        reader.pushFilters([EqualTo(("keys",), key)])
        assert key in read_tasks(reader, reader.partitions()).column("keys").to_pylist()


def test_a_topic_that_may_not_be_read_is_told(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    topic = f"for-writing-{server.kind}"

    async def create() -> None:
        cluster = cluster_of(client_of(Words(server.options())))
        address = cluster.info().brokers["broker-a"].addrs[0]
        channel = await connect(address)
        await channel.call(CreateTopic(topic, 2, 2, int(Perm.WRITE), "SINGLE_TAG", "TBW102"))
        channel.close()

    asyncio.run(create())
    wait_for_route(server, topic)
    with pytest.raises(InvalidArgument, match=f"the topic {topic} may be read: its permission is -W on broker-a"):
        read_all(server.options(subscribe=topic))
    assert read_all(server.options(subscribePattern=topic)).num_rows == 0
    assert "it is left out" in caplog.text


def wait_for_route(server: Server, topic: str) -> None:
    cluster = cluster_of(client_of(Words(server.options())))
    deadline_s = time.monotonic() + 60
    while cluster.route(topic) is None:
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def test_a_body_that_cannot_be_unpacked(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    topic = server.topic(1)
    server.send(topic, [0], queues=1)

    async def send() -> None:
        cluster = cluster_of(client_of(Words(server.options())))
        channel = await connect(cluster.info().brokers["broker-a"].addrs[0])
        flag = int(MessageFlag.COMPRESSED) | 3 << 8  # zlib
        await channel.call(SendMessage("g", topic, "TBW102", 4, 0, flag, 0, 0, "TAGS\x01three\x02"), b"not packed")
        channel.close()

    asyncio.run(send())
    server.send(topic, [2], queues=1)
    with pytest.raises(ProtocolError, match=f"{topic}, queue 0, offset 1: .*failOnDataLoss=false"):
        read_all(server.options(subscribe=topic))
    found = read_all(server.options(subscribe=topic, failOnDataLoss="false"))
    assert found.column("body").to_pylist() == [b"0", None, b"2"]
    assert f"{topic}, queue 0, offset 1" in caplog.text
    assert read_all(server.options(subscribe=topic, includeBody="false")).num_rows == 3
    with_tags = server.options(subscribe=topic, tags="three", failOnDataLoss="false")
    assert read_all(with_tags).column("body").to_pylist() == [b"0", None]


def test_large_messages_make_answers_short(server: Server) -> None:
    topic = server.topic(1)
    sizes = [number * 700 for number in range(150)]

    async def send() -> None:
        async with Producer("spark-tests", namesrv=server.namesrv, compress_over=None) as producer:
            for number, size in enumerate(sizes):
                await producer.send(message(topic, number, size))

    asyncio.run(send())
    server.send(topic, [], queues=1)
    deadline_s = time.monotonic() + 30
    while (table := read_all(server.options(subscribe=topic))).num_rows < len(sizes) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    assert numbers_of(table) == list(range(150))
    assert sum(len(body) for body in table.column("body").to_pylist()) == sum(
        len(str(number)) + size for number, size in enumerate(sizes)
    )


def test_what_is_gone_is_told(server: Server, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A range that the queue does not hold: an error, or, if so wished, the rest."""
    monkeypatch.setattr(pulling, "BEHIND_MS", 300)
    beyond = InputPartition([(topic, "broker-a", 0, 240, 260)])
    reader = reader_of(server.options(subscribe=topic))
    with pytest.raises(OffsetsLost, match="offsets 250 to 260 of queue 0"):
        read_tasks(reader, [beyond])
    lenient = reader_of(server.options(subscribe=topic, failOnDataLoss="false"))
    assert numbers_of(read_tasks(lenient, [beyond])) == list(range(960, 1000, 4))


@pytest.mark.parametrize(
    ("given", "fault", "told"),
    [
        ({"subscribe": "no-such-topic"}, TopicNotFound, "no-such-topic"),
        ({"startingOffsets": '{"TOPIC": {"broker-a": {"0": 3}}}'}, InvalidArgument, "does not name queue 1"),
        ({"startingOffsets": '{"other": {"broker-a": {"0": 3}}}'}, InvalidArgument, "not among the queues"),
        ({"startingOffsets": '{"TOPIC": {"broker-a": {"0":999,"1":0,"2":0,"3":0}}}'}, InvalidArgument, "ends at 250"),
        ({"endingOffsets": '{"TOPIC": {"broker-a": {"0":999,"1":0,"2":0,"3":0}}}'}, InvalidArgument, "ends at 250"),
        ({"assign": '{"TOPIC": {"broker-a": [9]}}', "subscribe": ""}, InvalidArgument, "queue 9"),
        ({"startingOffsetsByTimestamp": '{"other": 5}'}, InvalidArgument, "other"),
        (
            {
                "startingOffsets": '{"TOPIC": {"broker-a": {"0":9,"1":-1,"2":0,"3":0}}}',
                "endingOffsets": '{"TOPIC": {"broker-a": {"0":9,"1":8,"2":0,"3":0}}}',
            },
            InvalidArgument,
            "queue 1 of .* is 250, behind endingOffsets 8",
        ),
        (
            {"startingOffsetsByTimestamp": '{"TOPIC": 200}', "endingOffsetsByTimestamp": '{"TOPIC": 100}'},
            InvalidArgument,
            "is 200, behind its ending one 100",
        ),
    ],
    ids=str,
)
def test_bad_places_are_errors(
    server: Server, topic: str, given: dict[str, str], fault: type[CometError], told: str
) -> None:
    given = {"subscribe": topic, **{name: value.replace("TOPIC", topic) for name, value in given.items()}}
    with pytest.raises(fault, match=told):
        read_all(server.options(**{name: value for name, value in given.items() if value}))


def test_a_wrong_address_is_told() -> None:
    options = {"namesrvAddr": "127.0.0.1:1", "subscribe": "t", "retryTimeoutMs": "0"}
    with pytest.raises(PeerUnreachable, match="no name server answers"):
        read_all(options)


def test_readers_travel_as_plain_values(comet: Server) -> None:
    options = comet.options(subscribe="any")
    for one in (reader_of(options), source(options), reader_of({**options, "pushdown": "true"})):
        made, (module, name, arguments) = one.__reduce__()
        assert made.__module__ == "__main__"  # so cloudpickle sends it by value
        assert type(made(module, name, arguments)) is type(one)
    made, (_, name, arguments) = BatchReader(options, ("body",)).__reduce__()
    with pytest.raises(ImportError, match="install CometMQ with its extra spark"):
        made("no_such_package.spark", name, arguments)


async def test_cut_connections_cost_no_row() -> None:
    """Whatever byte a connection ends at: every row comes, once."""
    seed = random.getrandbits(32)
    async with LocalCluster({"brokerIP1": "127.0.0.2"}) as cluster:
        port = cluster.broker.port
        async with ChaosProxy(f"127.0.0.1:{port}", host="127.0.0.2", port=port) as proxy:
            await cluster.create_topic("cut", 2)
            async with Producer("spark-tests", namesrv=cluster.namesrv) as producer:
                await producer.send_batch([message("cut", number, 200) for number in range(3000)])
            proxy.cut_often(random.Random(seed), 20_000, 120_000)
            options = {"namesrvAddr": cluster.namesrv, "subscribe": "cut", "columns": "body"}
            whole = await asyncio.to_thread(read_all, options)
            filtered = await asyncio.to_thread(read_all, {**options, "tags": "three"})
            assert proxy.cuts > 3, f"seed {seed}"
            proxy.behave()
    assert numbers_of(whole) == list(range(3000)), f"seed {seed}"
    assert numbers_of(filtered) == list(range(0, 3000, 3)), f"seed {seed}"
