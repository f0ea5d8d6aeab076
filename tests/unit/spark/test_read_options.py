"""Options of reading: what is wrong is told before any server is asked, with the name of what was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from cometmq import Credentials, Tls
from cometmq.errors import InvalidArgument
from cometmq.spark.connecting import with_config
from cometmq.spark.options import ADDED, READING, ReadOptions, Words
from cometmq.spark.tables import table_of

BASE = {"namesrvAddr": "127.0.0.1:9876"}
TOPIC = {**BASE, "subscribe": "orders"}


def batch(**given: str) -> ReadOptions:
    return ReadOptions.of({name.lower(): value for name, value in {**TOPIC, **given}.items()}, is_stream=False)


def stream(**given: str) -> ReadOptions:
    return ReadOptions.of({name.lower(): value for name, value in {**TOPIC, **given}.items()}, is_stream=True)


def test_usual_values() -> None:
    one, other = batch(), stream()
    assert (one.start, one.end, other.start) == ("earliest", "latest", "latest")
    assert one.fail_on_data_loss and not one.commits and not other.commits
    assert stream(consumerGroup="g").commits
    assert not stream(consumerGroup="g", commitOffsets="false").commits
    assert batch(subscribe="a, b,a").choice.topics == ("a", "b")
    assert stream(minOffsetsPerTrigger="5", maxTriggerDelay="90s").max_delay_ms == 90_000
    assert stream(startingTimestamp="0").start_times_ms is not None


def test_the_variable_names_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "10.0.0.1:9876")
    assert ReadOptions.of({"subscribe": "t"}, is_stream=False).client.namesrv == "10.0.0.1:9876"
    monkeypatch.delenv("NAMESRV_ADDR")
    with pytest.raises(InvalidArgument, match="namesrvAddr"):
        ReadOptions.of({"subscribe": "t"}, is_stream=False)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"subscrib": "t"}, "did you mean subscribe?"),
        ({"startingOffset": "earliest"}, "did you mean startingOffsets?"),
        ({"kafka.bootstrap.servers": "x:1"}, "did you mean namesrvAddr?"),
        ({"kafka.group.id": "x"}, "did you mean consumerGroup?"),
        ({"failOnDataLos": "true"}, "did you mean failOnDataLoss?"),
        ({"zzz": "1"}, "there are"),
        ({"accessKey": "a"}, "accessKey and secretKey go together"),
        ({"tls.enable": "perhaps"}, "true or false"),
        ({"tls.caFile": "/no/such/file"}, "/no/such/file cannot be used"),
        ({"tls.keyFile": "/no/such/file"}, "without cert_file"),
        ({"tls.client.trustCertPath": "x"}, "did you mean tls.caFile?"),
        ({"assign": "{}"}, "subscribe and assign exclude"),
        ({"subscribePattern": "a.*"}, "subscribe and subscribePattern exclude"),
        ({"dlq": "g"}, "subscribe and dlq exclude"),
        ({"subscribe": ""}, "subscribe is empty"),
        ({"subscribe": "a,,b"}, "blank"),
        ({"subscribe": "a b"}, "illegal characters"),
        ({"namesrvAddr": "nowhere"}, "host:port"),
        ({"consumerGroup": "a b"}, "consumerGroup: .*illegal"),
        ({"tags": "a", "sqlFilter": "a = 1"}, "tags and sqlFilter exclude"),
        ({"tags": "||"}, "tags is"),
        ({"sqlFilter": "a ="}, "cannot be read"),
        ({"startingOffsets": "first"}, "earliest, latest, committed"),
        ({"startingOffsets": "{"}, "no JSON"),
        ({"startingOffsets": "{}"}, "names no queue"),
        ({"startingOffsets": '{"t": {"b": {"0": 1, "00": 2}}}'}, "'00': 2 is no offset"),
        ({"startingOffsets": '{"t": {"b": {"0": 1, "0": 2}}}'}, "'0' stands there twice"),
        ({"startingOffsets": "{" * 100_000}, "no JSON"),
        ({"startingTimestamp": "200", "endingTimestamp": "100"}, "200.* is later than endingTimestamp .100"),
        ({"traceTopic": "a"}, "of table=trace"),
        ({"topic": "orders"}, "topic does not go with a read of topics"),
        ({"guarantee": "exactly-once", "sinkLog": "/x"}, "guarantee does not go with a read"),
        ({"idColumn": "x"}, "idColumn does not go with a read"),
        ({"brokerName": "x"}, "brokerName does not go with a read"),
        ({"path": "orders"}, "a path .orders. means nothing"),
        ({"transactional": "true"}, "did you mean guarantee?"),
        ({"kafka.security.protocol": "SSL"}, r"did you mean tls\.\*?"),
        ({"group_id": "x"}, "did you mean consumerGroup?"),
        ({"topic_pattern": "x"}, "did you mean subscribePattern?"),
        ({"fail_on_data_loss": "x"}, "did you mean failOnDataLoss?"),
        ({"startingOffsets": '{"t": {"b": {"0": -3}}}'}, "less than -2"),
        ({"startingOffsets": '{"t": {"b": {"0": "1"}}}'}, "no offset"),
        ({"startingOffsets": '{"t": {"b": {"-1": 1}}}'}, "no offset"),
        ({"startingOffsets": '{"t": {"b": {"0": true}}}'}, "no offset"),
        ({"startingOffsets": '{"t": [1]}'}, "is expected"),
        ({"startingOffsets": "latest"}, "leaves nothing"),
        ({"endingOffsets": "earliest"}, "leaves nothing"),
        ({"startingOffsets": "committed"}, "needs consumerGroup"),
        ({"endingOffsets": "committed"}, "needs consumerGroup"),
        ({"startingOffsets": "earliest", "startingTimestamp": "5"}, "exclude each other"),
        ({"startingTimestamp": "yesterday"}, "whole number"),
        ({"startingOffsetsByTimestamp": '{"t": -5}'}, "less than 0"),
        ({"startingOffsetsByTimestampStrategy": "latest"}, "needs startingTimestamp"),
        ({"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "soon"}, "error or latest"),
        ({"minPartitions": "0"}, "from 1 on"),
        ({"maxRecordsPerPartition": "many"}, "whole number"),
        ({"minPartitions": "9" * 30}, "whole number"),
        ({"minPartitions": "9" * 5_000}, "whole number"),
        ({"failOnDataLoss": "yes"}, "true or false"),
        ({"maxOffsetsPerTrigger": "5"}, "of streams"),
        ({"commitOffsets": "true", "consumerGroup": "g"}, "of streams"),
        ({"requestTimeoutMs": "0"}, "from 1 on"),
    ],
    ids=str,
)
def test_a_wrong_option_of_a_batch_is_told(given: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        batch(**given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"endingOffsets": "latest"}, "has no end"),
        ({"endingTimestamp": "5"}, "has no end"),
        ({"pushdown": "true"}, "of batch reads"),
        ({"maxTriggerDelay": "5m"}, "minOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "5", "maxTriggerDelay": "5 parsecs"}, "a duration is expected"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "is more than"),
        ({"maxBytesPerTrigger": "-1"}, "from 1 on"),
        ({"commitOffsets": "true"}, "needs consumerGroup"),
    ],
    ids=str,
)
def test_a_wrong_option_of_a_stream_is_told(given: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        stream(**given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "say what to read"),
        ({"assign": "[]"}, "the option assign is expected as"),
        ({"assign": '{"t": {"b": [-1]}}'}, "the option assign is expected as"),
        ({"assign": '{"t": {"b": []}}'}, "no queue is named"),
        ({"subscribePattern": "("}, "no regular expression"),
        ({"dlq": "a b"}, "illegal"),
    ],
    ids=str,
)
def test_something_must_be_chosen(given: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        ReadOptions.of({**BASE, **given}, is_stream=False)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"columns": "bdy"}, "did you mean body?"),
        ({"columns": "body,body"}, "twice"),
        ({"columns": "body", "includeBody": "false"}, "leaves it out"),
        ({"columns": ""}, "columns is empty"),
        ({"columns": "properties", "includeHeaders": "false"}, "leaves it out"),
        (
            {"columns": "body", "includeHeaders": "true"},
            "does not name properties, and includeHeaders=true asks for it",
        ),
        ({"columns": "tags", "includeBody": "true"}, "does not name body"),
        ({"table": "tables"}, "messages or trace or lag or topics"),
        ({"list": "groups"}, "topics is possible"),
        ({"list": "topics", "table": "lag"}, "exclude each other"),
        ({"table": "trace", "traceTopic": "a", "subscribe": "b"}, "exclude each other"),
        ({"table": "trace", "tags": "a"}, "tags is of messages"),
        ({"table": "trace", "includeBody": "false"}, "includeBody is of messages"),
        ({"table": "lag", "subscribe": "b"}, "subscribe does not go with the table lag"),
        ({"table": "lag", "includeHeaders": "true"}, "includeHeaders does not go with the table lag"),
        ({"list": "topics", "consumerGroup": "g"}, "consumerGroup does not go with the table topics"),
        ({"storePath": "/x", "table": "lag"}, "table=lag is told by brokers"),
        ({"storePath": "/x", "traceTopic": "a"}, "of table=trace"),
        ({"storePath": "/x", "startingTimestamp": "2", "endingTimestamp": "1"}, "is later than"),
        ({}, "say what to read"),
        ({"subscribe": "t", "maxOffsetsPerTrigger": "0"}, "from 1 on"),
        ({"subscribe": "t", "maxOffsetsPerTrigger": "1", "endingOffsets": "latest"}, "a stream has no end"),
        ({"subscribe": "t", "endingOffsets": "first"}, "earliest, latest, committed"),
    ],
    ids=str,
)
def test_a_wrong_table_is_told(given: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        table = table_of(given if "storePath" in given else {**BASE, **given})
        table.spark_schema()
        table.check()


@pytest.mark.parametrize("given", [{"maxOffsetsPerTrigger": "5"}, {"endingOffsets": "latest"}, {"pushdown": "true"}])
def test_a_table_that_can_be_read_in_one_way_is_taken(given: dict[str, str]) -> None:
    table_of({**TOPIC, **given}).check()


def test_headers_can_be_left_out() -> None:
    assert "properties" in table_of(TOPIC).spark_schema().fieldNames()
    assert "properties" in table_of({**TOPIC, "includeHeaders": "true"}).spark_schema().fieldNames()
    names = table_of({**TOPIC, "includeHeaders": "false", "includeBody": "false"}).spark_schema().fieldNames()
    assert "properties" not in names and "body" not in names


def test_what_spark_adds_is_taken_and_never_offered() -> None:
    with pytest.raises(InvalidArgument) as told:
        batch(zzzz="1", queryName="q", checkpointLocation="/x")
    assert "startingOffsets" in str(told.value)
    assert not [name for name in (*ADDED, "path") if name in str(told.value)]


def test_retry_topics_of_pop_are_meant_in_both_forms() -> None:
    choice = ReadOptions.of({**BASE, "retry": "a_b"}, is_stream=False).choice
    assert choice.topics == ("%RETRY%a_b",)
    known = {
        "t",
        "%RETRY%a_b",
        "%RETRY%a_b_t",
        "%RETRY%a_b+t",
        "%RETRY%a_b+gone",
        "%RETRY%a_b_c",
        "%RETRY%a_t",
        "a_b_t",
    }
    found = {topic for topic in known if choice.matches(topic, known)}
    assert found == {"%RETRY%a_b_t", "%RETRY%a_b+t", "%RETRY%a_b+gone"}
    assert choice.matches("%RETRY%a_b_c")  # where nobody knows the topics
    assert not choice.matches("%RETRY%a_b_")


def test_every_option_is_known_by_its_name() -> None:
    Words(dict.fromkeys(READING, "1")).check_known(READING, "a read")
    for name in READING:
        with pytest.raises(InvalidArgument, match=f"did you mean {name}|there are"):
            Words({name[:-1] + "_": "1"}).check_known(READING, "a read")


def test_every_option_is_in_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")
    assert [name for name in READING if f"`{name}" not in page and f"{name}=" not in page] == []


def test_who_asks_and_how_it_is_encrypted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "client.properties"
    path.write_text("accessKey=a\nsecretKey=of the file\ntls.verify=false\n")
    for given in ({"clientConfig": str(path)}, {}):
        if not given:
            monkeypatch.setenv("COMETMQ_CLIENT_CONFIG", str(path))
        client = ReadOptions.of(with_config({**TOPIC, **given, "SECRETKEY": "given"}), is_stream=False).client
        assert client.credentials == Credentials("a", "given") and client.tls == Tls(verify=False)
        assert "given" not in repr(client)
    assert with_config({"storePath": "/x"}) == {"storePath": "/x"}
    assert batch().client.credentials is batch().client.tls is batch(**{"tls.enable": "false"}).client.tls is None
    for content, told in (("secret=x", "has secret; there are accessKey"), (None, "cannot read the configuration")):
        path.unlink()
        if content is not None:
            path.write_text(content)
        with pytest.raises(InvalidArgument, match=f"COMETMQ_CLIENT_CONFIG: .*{told}"):
            with_config(TOPIC)
