"""Offsets, limits, tasks and conditions, without any server."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
)

from cometmq.errors import InvalidArgument
from cometmq.model.queue import MessageQueue
from cometmq.spark.filters import PLACES, Narrowing, narrowing_of
from cometmq.spark.offsets import Offsets, Range, StreamOffset, flat, nested, ranges_between
from cometmq.spark.planning import ROWS_SMALL, admit, admit_bytes, share
from cometmq.spark.trace_rows import read_line

queues = st.builds(MessageQueue, st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 12))
offsets = st.dictionaries(queues, st.integers(0, 1 << 40), max_size=12)
ranges = st.lists(
    st.builds(
        lambda queue, start, rows: Range(str(queue.topic), str(queue.broker_name), queue.queue_id, start, start + rows),
        queues,
        st.integers(0, 1 << 40),
        st.integers(0, 3_000_000),
    ),
    max_size=12,
)


@given(offsets, offsets)
def test_offsets_come_back_as_the_same_text(ends: dict[MessageQueue, int], begins: dict[MessageQueue, int]) -> None:
    text = json.dumps(StreamOffset(ends, begins).write())
    assert StreamOffset.read(json.loads(text)) == StreamOffset(ends, begins)
    shuffled = dict(reversed(ends.items()))
    assert json.dumps(StreamOffset(shuffled, begins).write()) == text
    assert flat(nested(ends), "here") == ends


@given(offsets, offsets, offsets)
def test_a_batch_is_what_lies_between(
    starts: dict[MessageQueue, int], ends: dict[MessageQueue, int], begins: dict[MessageQueue, int]
) -> None:
    start, end = StreamOffset(starts), StreamOffset(ends, begins)
    found = {MessageQueue(one.topic, one.broker, one.queue): one for one in ranges_between(start, end)}
    for queue, until in ends.items():
        begin = begins.get(queue, starts.get(queue, 0))
        assert (queue in found) == (begin < until and start != end)
    assert ranges_between(end, end) == []


@given(ranges, st.integers(1, 16), st.none() | st.integers(1, 40), st.none() | st.integers(50_000, 1_000_000))
def test_tasks_share_all_and_nothing_twice(
    given_ranges: list[Range], cores: int, min_partitions: int | None, max_records: int | None
) -> None:
    tasks = share(given_ranges, cores=cores, min_partitions=min_partitions, max_records=max_records)
    pieces = [piece for task in tasks for piece in task]
    joined: list[Range] = []
    for piece in pieces:
        assert piece.rows > 0
        if joined and joined[-1][:3] == piece[:3] and joined[-1].end == piece.start:
            joined[-1] = joined[-1]._replace(end=piece.end)
        else:
            joined.append(piece)
    wanted: list[Range] = []
    for one in given_ranges:
        if one.rows and wanted and wanted[-1][:3] == one[:3] and wanted[-1].end == one.start:
            wanted[-1] = wanted[-1]._replace(end=one.end)
        elif one.rows:
            wanted.append(one)
    assert joined == wanted
    total = sum(one.rows for one in given_ranges)
    if min_partitions:
        assert len(tasks) >= min(min_partitions, total, len(pieces))
    if max_records:
        assert all(sum(piece.rows for piece in task) <= max_records for task in tasks)


def test_a_hot_queue_uses_all_cores_and_quiet_ones_share_a_task() -> None:
    hot = [Range("t", "b", 0, 0, 400_000)]
    assert len(share(hot, cores=8, min_partitions=None, max_records=None)) == 8
    quiet = [Range("t", "b", number, 0, 5) for number in range(1000)]
    assert len(share(quiet, cores=4, min_partitions=None, max_records=None)) == 4
    assert len(share(hot, cores=64, min_partitions=None, max_records=None)) == 400_000 // ROWS_SMALL
    assert share([], cores=4, min_partitions=7, max_records=None) == []


@pytest.mark.parametrize("cores", [2, 3, 8, 16])
def test_a_hot_queue_among_quiet_ones_uses_all_cores(cores: int) -> None:
    hot = [Range("t", "b", 0, 0, 400_000), *(Range("t", "b", number, 0, 5) for number in range(1, 8))]
    tasks = share(hot, cores=cores, min_partitions=None, max_records=None)
    assert max(sum(one.rows for one in task) for task in tasks) <= 400_035 // cores + 1
    assert len(tasks) == cores + 1


limits = st.dictionaries(queues, st.tuples(st.integers(0, 1 << 30), st.integers(0, 100_000)), min_size=1, max_size=12)


@given(limits, st.integers(1, 200_000))
def test_limits_are_kept_and_something_always_goes_on(waiting: dict[MessageQueue, tuple[int, int]], most: int) -> None:
    starts = {queue: start for queue, (start, _) in waiting.items()}
    ends = {queue: start + count for queue, (start, count) in waiting.items()}
    total = sum(count for _, count in waiting.values())
    found = admit(starts, ends, most)
    assert sum(found[queue] - starts[queue] for queue in found) == min(total, most)
    assert all(starts[queue] <= found[queue] <= ends[queue] for queue in found)
    by_size = admit_bytes(starts, ends, dict.fromkeys(starts, 10.0), most)
    taken = sum(by_size[queue] - starts[queue] for queue in by_size)
    assert all(starts[queue] <= by_size[queue] <= ends[queue] for queue in by_size)
    assert taken * 10 <= max(most, 10)
    assert (taken > 0) == (total > 0)
    queues_waiting = [queue for queue, (_, count) in waiting.items() if count]
    if most >= len(queues_waiting):
        assert all(found[queue] > starts[queue] for queue in queues_waiting)
    if most >= 10 * len(queues_waiting):
        assert all(by_size[queue] > starts[queue] for queue in queues_waiting)


def test_quiet_queues_get_something_beside_a_hot_one() -> None:
    ends = {MessageQueue("t", "b", number): count for number, count in enumerate((1_000_000, 50, 90))}
    starts = dict.fromkeys(ends, 0)
    assert list(admit(starts, ends, 10_000).values()) == [9_997, 1, 2]
    assert list(admit_bytes(starts, ends, dict.fromkeys(ends, 1000.0), 10_000_000).values()) == [9_996, 1, 1]


def by_rows(starts: Offsets, ends: Offsets) -> Offsets:
    return admit(starts, ends, 3)


def by_bytes(starts: Offsets, ends: Offsets) -> Offsets:
    return admit_bytes(starts, ends, dict.fromkeys(ends, 10.0), 35)


@pytest.mark.parametrize("limited", [by_rows, by_bytes])
def test_queues_take_turns_where_the_limit_is_smaller_than_their_number(
    limited: Callable[[Offsets, Offsets], Offsets],
) -> None:
    ends = {MessageQueue("t", "b", number): 1_000 for number in range(10)}
    at = dict.fromkeys(ends, 0)
    for _ in range(10):
        after = limited(at, ends)
        assert sum(after.values()) == sum(at.values()) + 3
        at = after
    assert set(at.values()) == {3}


NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ([EqualTo(("queue",), 3), In(("queue",), (3, 4))], Narrowing(queues=[3])),
        ([EqualTo(("TOPIC",), "t"), EqualNullSafe(("broker",), "b")], Narrowing(topics=["t"], brokers=["b"])),
        ([EqualTo(("tags",), "a"), In(("tags",), ("a", "b"))], Narrowing(tags=["a"])),
        ([EqualTo(("tags",), "a"), EqualTo(("tags",), "b")], Narrowing(offset_high=0)),
        ([EqualTo(("tags",), "a || b")], Narrowing()),
        ([EqualTo(("tags",), "*")], Narrowing()),
        ([EqualTo(("keys",), "k1 k2")], Narrowing(key="k1")),
        ([EqualTo(("keys",), " ")], Narrowing()),
        ([EqualTo(("keys",), " a\tb\u3000c\u00a0d ")], Narrowing(key="a\tb\u3000c\u00a0d")),
        ([In(("keys",), ("a", "b"))], Narrowing()),
        ([GreaterThan(("offset",), 5), LessThanOrEqual(("offset",), 9)], Narrowing(offset_low=6, offset_high=10)),
        ([GreaterThanOrEqual(("offset",), 5), LessThan(("offset",), 9)], Narrowing(offset_low=5, offset_high=9)),
        ([EqualTo(("offset",), 7)], Narrowing(offset_low=7, offset_high=8)),
        ([GreaterThanOrEqual(("store_time",), NOON)], Narrowing(time_low_ms=NOON_MS)),
        ([GreaterThan(("store_time",), NOON + timedelta(microseconds=1))], Narrowing(time_low_ms=NOON_MS)),
        ([LessThan(("store_time",), NOON + timedelta(microseconds=1))], Narrowing(time_high_ms=NOON_MS + 1)),
        ([EqualTo(("store_time",), NOON)], Narrowing(time_low_ms=NOON_MS, time_high_ms=NOON_MS + 1)),
        (
            [LessThanOrEqual(("store_time",), NOON.astimezone(timezone(timedelta(hours=5))))],
            Narrowing(time_high_ms=NOON_MS + 1),
        ),
        ([LessThan(("store_time",), NOON.replace(tzinfo=None))], Narrowing()),
        ([LessThan(("store_time",), None)], Narrowing()),
        ([LessThan(("offset",), None), EqualTo(("queue",), None)], Narrowing()),
        ([Not(EqualTo(("queue",), 3)), IsNotNull(("tags",)), StringContains(("keys",), "k")], Narrowing()),
        ([EqualTo(("properties", "a"), "b"), EqualTo(("body",), b"x")], Narrowing()),
    ],
    ids=str,
)
def test_conditions_narrow_only_what_they_say(filters: list[object], wanted: Narrowing) -> None:
    found = narrowing_of(filters)  # type: ignore[arg-type]
    assert found == wanted
    assert Narrowing.read(found.write()) == found


def test_lines_of_a_trace_are_narrowed_by_their_places_only() -> None:
    filters = [EqualTo((name,), "x") for name in ("topic", "tags", "keys", "broker")]
    filters += [EqualTo(("queue",), 3), LessThan(("offset",), 9), GreaterThan(("store_time",), NOON)]
    assert narrowing_of(filters, PLACES) == Narrowing(brokers=["x"], queues=[3], offset_high=9)


@pytest.mark.parametrize("text", ["", "Pub", "Nothing\x01x", "Pub\x01soon\x01r", "SubAfter\x01\x01null\x01x\x01maybe"])
def test_a_trace_line_is_read_as_far_as_it_can_be(text: str) -> None:
    found = read_line(text)
    assert found.get("time") is None and found.get("cost_ms") is None and found.get("success") is None


def test_values_are_for_queues_that_are_read() -> None:
    with pytest.raises(InvalidArgument):
        flat({"t": {"b": {"0": 1 << 64}}}, "here")
