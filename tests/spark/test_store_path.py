"""`storePath`: the files of running and stopped stores, CometMQ's and Java's, give the rows that the broker gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.kit import Server, read_all
from tests.unit.columns.log_kit import write_log
from tests.unit.columns.records import make_record

from cometmq.client.compression import Compression
from cometmq.errors import CometError, CorruptRecord, InvalidArgument, ProtocolError, StoreError
from cometmq.spark.store_path import StoreReader, StoreTable

COUNT = 3_000
COLUMNS = "topic,queue,offset,message_id,body,tags,keys,properties,born_time,store_time,born_host,reconsume_times"


@pytest.fixture
def store(server: Server, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the running server's store."""
    if server.kind == "comet":
        roots = [Path(request.getfixturevalue("cometmq").cluster._folder)]
    else:
        roots = sorted(tmp_path_factory.getbasetemp().glob("java[0-9]*"))  # not the link to it
    (log,) = [log for root in roots for log in root.rglob("commitlog") if log.is_dir()]
    return log.parent


@pytest.mark.timeout(600)
def test_files_and_broker_give_the_same_rows(server: Server, store: Path, spark: SparkSession) -> None:
    topic = server.topic()
    server.send(topic, range(COUNT), size=1000)
    given = {"storePath": str(store), "subscribe": topic, "columns": COLUMNS, "minPartitions": "5"}
    files = spark.read.format("rocketmq").options(**given).load()
    broker = spark.read.format("rocketmq").options(**server.options(subscribe=topic, columns=COLUMNS)).load()
    seen, told = (sorted(frame.collect(), key=lambda row: (row.queue, row.offset)) for frame in (files, broker))
    assert len(seen) == COUNT
    assert seen == told


def read(store: Path, **options: object) -> list[int]:
    given = {"storePath": str(store), "columns": "offset"} | {name: str(value) for name, value in options.items()}
    StoreTable(given)
    reader = StoreReader(given, ["offset"])
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return [offset for batch in batches for offset in batch["offset"].to_pylist()]


def test_topics_and_times(tmp_path: Path) -> None:
    write_log(tmp_path, [b"x" * 100] * 50)
    assert read(tmp_path) == list(range(50))
    assert read(tmp_path, subscribe="orders", minPartitions=9) == list(range(50))
    assert read(tmp_path, subscribe="order") == []
    assert read(tmp_path, subscribePattern="ord.*") == list(range(50))
    assert read(tmp_path, startingTimestamp=1010, endingTimestamp=1020) == list(range(10, 20))


def test_damage_fails_the_read_unless_asked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_log(tmp_path, [b"x" * 100] * 50)[1]
    path.write_bytes(path.read_bytes()[:500] + b"\xff" * 50 + path.read_bytes()[550:])
    with pytest.raises(CorruptRecord, match=path.name):
        read(tmp_path)
    assert 47 <= len(read(tmp_path, failOnDataLoss="false")) <= 49
    assert path.name in caplog.text
    path.unlink()
    with pytest.raises(StoreError, match="2000 bytes of the log are missing"):
        read(tmp_path)


def test_retries_of_pop_are_found_in_both_forms(tmp_path: Path) -> None:
    topics = ["%RETRY%g", "%RETRY%g_orders", "%RETRY%g+orders", "%RETRY%gg_orders", "orders"]
    folder = tmp_path / "commitlog"
    folder.mkdir()
    data = b""
    for offset, topic in enumerate(topics):
        data += make_record(topic=topic.encode(), body=b"x", offset=offset, position=len(data))
    (folder / f"{0:020d}").write_bytes(data.ljust(2000, b"\0"))
    assert read(tmp_path, retry="g") == [0, 1, 2]


def test_a_body_that_cannot_be_unpacked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "commitlog"
    folder.mkdir()
    packed = make_record(body=b"not packed", sys_flag=Compression.ZLIB.sys_flag)
    (folder / f"{0:020d}").write_bytes(packed.ljust(2000, b"\0"))
    given = {"storePath": str(tmp_path), "columns": "body"}
    with pytest.raises(ProtocolError, match="failOnDataLoss=false"):
        read_all(given)
    assert read_all({**given, "failOnDataLoss": "false"}).column("body").to_pylist() == [None]
    assert "its row has no body" in caplog.text


def test_a_torn_tail_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write_log(tmp_path, [b"x" * 100] * 3)[0]
    data = path.read_bytes().rstrip(b"\0")
    path.write_bytes((data + data[:60]).ljust(2000, b"\0"))
    assert read(tmp_path) == [0, 1, 2]
    assert "no whole record" in caplog.text


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"namesrvAddr": "x:1"}, "namesrvAddr does not go with storePath"),
        ({"startingOffsets": "earliest"}, "startingOffsets does not go"),
        ({"splitFile": "true"}, "did you mean splitFiles"),
        ({"subscribe": "a", "dlq": "b"}, "exclude each other"),
        ({"checkCrc": "yes"}, "true or false"),
        ({"endingTimestamp": "now"}, "a whole number"),
    ],
)
def test_wrong_options(tmp_path: Path, options: dict[str, str], says: str) -> None:
    write_log(tmp_path, [])
    with pytest.raises(InvalidArgument, match=says):
        read(tmp_path, **options)


def test_no_store_there(tmp_path: Path) -> None:
    with pytest.raises(CometError, match="not a folder"):
        read(tmp_path / "absent")
