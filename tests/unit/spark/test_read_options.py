"""Options of reading: what is wrong is told before any server is asked, with the name of what was probably meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from cometmq.errors import InvalidArgument
from cometmq.spark.options import READING, ReadOptions, Words
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
        ({"accessKey": "a"}, "neither signs requests nor speaks TLS"),
        ({"tls.enable": "true"}, "neither signs requests nor speaks TLS"),
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
        ({"table": "tables"}, "messages or trace or lag or topics"),
        ({"list": "groups"}, "topics is possible"),
        ({"list": "topics", "table": "lag"}, "exclude each other"),
        ({"table": "trace", "traceTopic": "a", "subscribe": "b"}, "exclude each other"),
    ],
    ids=str,
)
def test_a_wrong_table_is_told(given: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        table_of({**BASE, **given}).spark_schema()


def test_every_option_is_known_by_its_name() -> None:
    Words(dict.fromkeys(READING, "1")).check_known(READING)
    for name in READING:
        with pytest.raises(InvalidArgument, match=f"did you mean {name}|there are"):
            Words({name[:-1] + "_": "1"}).check_known(READING)


def test_every_option_is_in_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")
    assert [name for name in READING if f"`{name}" not in page and f"{name}=" not in page] == []
