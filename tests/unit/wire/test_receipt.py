"""Receipts as clients read them, and batches of acknowledgements as they write them."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.broker.pop import handle as broker_side
from cometmq.errors import ProtocolError
from cometmq.wire.bodies.acks import BatchAck, BatchAcks, bit_set, read_batch_acks
from cometmq.wire.receipt import Handle, handles_of, order_counts
from cometmq.wire.record import Record
from cometmq.wire.requests.pop import PopMessageReply

numbers = st.integers(0, 2**63 - 1)
small = st.integers(0, 2**31 - 1)
names = st.text("abcXYZ-_0", min_size=1, max_size=20)


def record(topic: str, queue_id: int, offset: int, properties: str = "") -> Record:
    rest: dict[str, Any] = dict.fromkeys(
        ("flag", "physical_offset", "sys_flag", "born_time_ms", "store_time_ms", "reconsume_times"), 0
    )
    return Record(
        topic=topic,
        queue_id=queue_id,
        queue_offset=offset,
        born_host=bytes(8),
        store_host=bytes(8),
        prepared_offset=0,
        body=b"",
        properties_text=properties,
        body_crc=0,
        size=0,
        **rest,
    )


@given(st.tuples(numbers, numbers, numbers, small, st.sampled_from("012"), names, small, numbers))
def test_round_trip(fields: Any) -> None:
    handle = Handle(*fields)
    assert Handle.parse(handle.render()) == handle


@given(numbers, numbers, numbers, small, names, small, numbers)
def test_it_is_what_the_broker_reads(
    start: int, at: int, time: int, revive: int, name: str, queue: int, to: int
) -> None:
    text = broker_side.render(start, at, time, revive, "%RETRY%g_t", name, queue, to)
    handle = Handle.parse(text)
    assert handle == (start, at, time, revive, "1", name, queue, to)
    assert handle.topic("t", "g") == "%RETRY%g_t"
    assert broker_side.read_receipt(handle.render()) == broker_side.Receipt(start, at, time, revive, name)


@given(st.text("0123456789 -;,@xqo%", max_size=60))
def test_garbage_is_a_protocol_error(text: str) -> None:
    with contextlib.suppress(ProtocolError):
        Handle.parse(text)
    with contextlib.suppress(ProtocolError):
        order_counts(text)
    reply = PopMessageReply(1, 2, 3, 4, text, text)
    with contextlib.suppress(ProtocolError):
        handles_of(reply, [record("t", 0, 5)], "b")


@pytest.mark.parametrize("bad", ["", "1 2 3", "1 2 3 4 5 b 6 x", "a 2 3 4 0 b 6 7", "1 2 3 4 0 b 6 7 8"])
def test_what_is_no_handle(bad: str) -> None:
    with pytest.raises(ProtocolError):
        Handle.parse(bad)


def test_a_kind_that_nobody_knows() -> None:
    with pytest.raises(ProtocolError):
        Handle.parse("1 2 3 4 7 b 6 7").topic("t", "g")


def test_handles_of_an_answer() -> None:
    reply = PopMessageReply(100, 30_000, 3, 0, "0 0 10;0 2 7;2 0 1", "0 0 10,12;0 2 7;2 0 1")
    own = "5 100 30000 3 1 b 0 5"
    records = [
        record("t", 0, 10),
        record("t", 0, 12),
        record("t", 2, 7),
        record("%RETRY%g+t", 0, 1),
        record("t", 0, 0, f"A\x011\x02POP_CK\x01{own}\x02"),  # of a retry topic, under the name of its own
    ]
    assert [handle.render() for handle in handles_of(reply, records, "b")] == [
        "10 100 30000 3 0 b 0 10",
        "10 100 30000 3 0 b 0 12",
        "7 100 30000 3 0 b 2 7",
        "1 100 30000 3 2 b 0 1",
        own,
    ]
    # Brokers before 5 tell no starts: then a message is its own.
    assert handles_of(PopMessageReply(100, 30_000, 3, 0), records[:1], "b")[0].render() == "10 100 30000 3 0 b 0 10"


@given(st.sets(st.integers(0, 300), min_size=1), numbers)
def test_batches_of_acknowledgements(offsets: set[int], start: int) -> None:
    one = BatchAck("g", "t", "0", start, 1, 2, 3, 4, bit_set(offsets))
    read = read_batch_acks(BatchAcks("b", [one]).encode())
    assert (read.broker_name, read.acks) == ("b", [one])
    assert list(read.acks[0].offsets()) == sorted(start + offset for offset in offsets)
