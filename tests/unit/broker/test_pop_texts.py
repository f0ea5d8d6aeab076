"""Receipts, checkpoints, acknowledgements and names of pop: as Java writes them, and bad ones."""

from __future__ import annotations

import base64
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.broker.pop import handle
from cometmq.broker.pop.checkpoint import Ack, CheckPoint
from cometmq.broker.pop.recoding import recoded
from cometmq.broker.pop.retry_topic import mark_of, marked_topic, normal_topic, pop_retry_topic
from cometmq.errors import CometError, ProtocolError, RequestRefused
from cometmq.wire.bodies.acks import read_batch_acks
from cometmq.wire.record import decode_records, encode_record

# Written by Apache RocketMQ 5.5.0.
JAVA_CK = (
    b'{"bm":0,"bn":"broker-a","c":"G","d":[0,1,2],"it":2000,"n":3,"pt":1794796389774,"q":0,'
    b'"reviveTime":1794796391774,"ro":0,"so":7,"sp":false,"t":"T"}'
)
HOST = bytes(8)
KEYS = st.sampled_from(["acks", "c", "t", "r", "so", "q", "rq", "pt", "it", "b"])
RUBBISH = st.recursive(
    st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner)
)


def test_a_checkpoint_is_written_as_java_writes_it() -> None:
    point = CheckPoint("T", "G", 0, 7, 1794796389774, 2000, "broker-a", [0, 1, 2])
    assert point.to_body() == JAVA_CK
    assert point.unique_id == "T@0@7@G@1794796389774@broker-a@ck"
    read = CheckPoint.from_body(JAVA_CK)
    assert read is not None and read.key == point.key and list(read.diffs) == [0, 1, 2]


def test_an_old_checkpoint_hands_out_a_row() -> None:
    point = CheckPoint.from_body(b'{"t":"T","c":"G","n":3,"so":5}')
    assert point is not None and point.open_offsets() == [5, 6, 7]
    assert point.acknowledge(6) and not point.acknowledge(9)
    assert point.open_offsets() == [5, 7]


@pytest.mark.parametrize("body", [b"0-17", b"[]", b'{"t":"T","c":"G","n":"x"}', b'{"t":"T","c":"G","d":[{}],"n":1}'])
def test_a_checkpoint_of_rubbish_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        CheckPoint.from_body(body)


def test_a_checkpoint_of_nobody_means_nothing() -> None:
    assert CheckPoint.from_body(b'{"n":3}') is None


@pytest.mark.parametrize("batch", [False, True])
def test_acknowledgements_go_there_and_back(batch: bool) -> None:
    ack = Ack("T", "G", 1, 7, 99, "broker-a", [7, 9] if batch else [9])
    assert Ack.from_body(ack.to_body(batch=batch), "other", batch=batch) == ack


def test_an_acknowledgement_without_a_broker_is_ours() -> None:
    long_names = b'{"ackOffset":9,"startOffset":7,"consumerGroup":"G","topic":"T","queueId":1,"popTime":99}'
    assert Ack.from_body(long_names, "broker-a", batch=False) == Ack("T", "G", 1, 7, 99, "broker-a", [9])


def test_a_receipt_goes_there_and_back() -> None:
    text = handle.render(7, 99, 1000, 3, "%RETRY%G_T", "broker-a", 0, 8)
    assert text == "7 99 1000 3 1 broker-a 0 8"
    assert handle.read_receipt(text) == handle.Receipt(7, 99, 1000, 3, "broker-a")


@pytest.mark.parametrize(
    "text", [None, "", "7 99 1000 3 1", "a 99 1000 3 1 b", "7 99 1000 3.5 1 b", f"{'9' * 40} 1 1 1 0 b"]
)
def test_a_receipt_of_rubbish_is_refused(text: str | None) -> None:
    with pytest.raises(RequestRefused):
        handle.read_receipt(text)


@given(st.text(max_size=60))
def test_a_receipt_is_read_or_refused(text: str) -> None:
    with suppress(CometError):
        handle.read_receipt(text)


def test_names_of_retry_topics() -> None:
    for v2, mark in ((False, "1"), (True, "2")):
        topic = pop_retry_topic("T_1", "G_2", v2=v2)
        assert mark_of(topic) == mark
        assert marked_topic("T_1", "G_2", mark) == topic
        assert normal_topic(topic, "G_2") == "T_1"
    assert (mark_of("T"), marked_topic("T", "G", "0"), normal_topic("T", "G")) == ("0", "T", "T")
    assert marked_topic("T", "G", "9") is None


def test_a_batch_of_acknowledgements_is_a_bit_set() -> None:
    bits = base64.b64encode(bytes([0b101, 0, 0b10000000])).decode()
    body = json.dumps(
        {"acks": [{"c": "G", "t": "T", "r": "0", "so": 100, "q": 1, "rq": 2, "pt": "3", "it": 4, "b": bits}]}
    )
    (one,) = read_batch_acks(body.encode()).acks
    assert list(one.offsets()) == [100, 102, 123]
    assert (one.queue_id, one.revive_queue, one.pop_time_ms) == (1, 2, 3)


@given(RUBBISH)
def test_a_batch_of_rubbish_is_read_or_refused(value: object) -> None:
    with suppress(CometError):
        for one in read_batch_acks(json.dumps(value).encode()).acks:
            list(one.offsets())


@pytest.mark.parametrize("properties", [b"", b"TAGS\x01a", b"TAGS\x01a\x02", b"K\x01" + b"v" * 32_760 + b"\x02"])
def test_a_retried_message_gets_its_own_topic_and_a_receipt(properties: bytes) -> None:
    stored = [
        encode_record(
            topic=b"%RETRY%G_T",
            queue_id=0,
            flag=1,
            queue_offset=offset,
            physical_offset=17,
            sys_flag=0,
            born_time_ms=1,
            born_host=HOST,
            store_time_ms=2,
            store_host=HOST,
            reconsume_times=3,
            body=b"body",
            properties_data=properties,
        )
        for offset in (5, 6)
    ]
    records = list(decode_records(b"".join(recoded(b"".join(stored), b"T", "receipt {}".format))))
    assert [record.queue_offset for record in records] == [5, 6]
    if len(properties) > 32_000:  # no room for a receipt: as it was
        assert {record.topic for record in records} == {"%RETRY%G_T"}
    else:
        assert {record.topic for record in records} == {"T"}
        assert [record.properties["POP_CK"] for record in records] == ["receipt 5", "receipt 6"]
