"""A stream's planning and reading, trigger by trigger, without Spark around it."""

from __future__ import annotations

import time
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)
from tests.spark.kit import Server, Stream, numbers_of, read_all, source

from cometmq.errors import InvalidArgument, OffsetsLost, PeerUnreachable, TopicNotFound
from cometmq.model.queue import MessageQueue
from cometmq.spark.cluster import Cluster, cluster_of
from cometmq.spark.options import Words, client_of
from cometmq.testing.pytest_plugin import RunningCluster


def together(batches: list[list[int]]) -> list[int]:
    return sorted(number for batch in batches for number in batch)


def test_a_stream_goes_on_where_it_was(server: Server) -> None:
    topic = server.topic()
    server.send(topic, range(100))
    late = Stream(server.options(subscribe=topic))
    stream = Stream(server.options(subscribe=topic, startingOffsets="earliest"))
    assert stream.rest() == [list(range(100))]
    server.send(topic, range(100, 150))
    assert stream.rest() == late.rest() == [list(range(100, 150))]
    server.send(topic, [150])
    again = Stream(server.options(subscribe=topic, startingOffsets="earliest"), stream.at)  # a driver that restarted
    assert again.rest() == [[150]]
    latest = again.reader.reportLatestOffset()
    assert latest == again.at


def test_batches_hold_to_their_limits(server: Server) -> None:
    topic = server.topic()
    server.send(topic, [*range(0, 400, 4), 1, 2])  # one queue has nearly all
    options = server.options(subscribe=topic, startingOffsets="earliest")
    batches = Stream({**options, "maxOffsetsPerTrigger": "30"}).rest()
    assert [len(batch) for batch in batches] == [30, 30, 30, 12]
    assert together(batches) == sorted([*range(0, 400, 4), 1, 2])
    by_size = Stream({**options, "maxBytesPerTrigger": "5000"}).rest()
    assert together(by_size) == together(batches)
    assert 3 <= len(by_size) <= 60
    tiny = Stream({**options, "maxBytesPerTrigger": "1"})
    assert len(tiny.batch() or ()) == 1
    stream = Stream({**options, "maxOffsetsPerTrigger": "30"})
    stream.limit = ReadAllAvailable()  # Trigger.Once: no limit counts
    assert [len(batch) for batch in stream.rest()] == [102]


def test_small_batches_wait(comet: Server) -> None:
    topic = comet.topic()
    options = comet.options(subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=50)
    patient = Stream({**options, "maxTriggerDelay": "1h"})
    hasty = Stream({**options, "maxTriggerDelay": "300ms", "maxOffsetsPerTrigger": "100"})
    comet.send(topic, range(49))
    assert patient.batch() is None
    deadline_s = time.monotonic() + 30
    while (found := hasty.batch()) is None:
        assert time.monotonic() < deadline_s
    assert found == list(range(49))
    comet.send(topic, [49])
    assert patient.batch() == list(range(50))
    ending = Stream({**options, "maxTriggerDelay": "1h"})
    comet.send(topic, [50])
    ending.reader.prepareForTriggerAvailableNow()
    assert ending.rest() == [list(range(51))]  # it waits for nothing when it is to end


def test_limits_have_names(comet: Server) -> None:
    def limit(**given: object) -> ReadLimit:
        made = source(comet.options(subscribe="any", **given))
        return made.streamReader(made.schema()).getDefaultReadLimit()

    assert limit() == ReadAllAvailable()
    assert limit(maxOffsetsPerTrigger=5, minOffsetsPerTrigger=2) == ReadMaxRows(5)
    assert limit(maxBytesPerTrigger=5) == ReadMaxBytes(5)
    assert limit(minOffsetsPerTrigger=2) == ReadMinRows(2)


def test_available_now_ends(comet: Server, cometmq: RunningCluster) -> None:
    topic = comet.topic(2)
    comet.send(topic, range(100), queues=2)
    stream = Stream(comet.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=30))
    stream.reader.prepareForTriggerAvailableNow()
    first = stream.batch()
    assert first is not None
    cometmq.create_topic(topic, 4)  # queues 2 and 3 are new
    comet.send(topic, range(100, 200), queues=4)
    batches = [first, *stream.rest()]
    assert [len(batch) for batch in batches] == [30, 30, 30, 10]
    assert together(batches) == list(range(100))
    again = Stream(comet.options(subscribe=topic, startingOffsets="earliest"), stream.at)
    again.reader.prepareForTriggerAvailableNow()
    assert together(again.rest()) == list(range(100, 200))


def test_queues_and_topics_that_come_are_found(server: Server) -> None:
    pattern = f"found-{server.kind}-.*"
    stream = Stream(server.options(subscribePattern=pattern))
    assert stream.at == {}
    assert stream.batch() is None
    topic = server.make(f"found-{server.kind}-1", 1)
    server.send(topic, range(10), queues=1)
    assert stream.rest() == [list(range(10))]  # from its first message on: it was not there before


def test_a_queue_that_came_late_begins_where_it_can(comet: Server, cometmq: RunningCluster) -> None:
    """A batch that is repeated after a crash is the same, though the beginning stands in no earlier offset."""
    topic = comet.topic(1)
    stream = Stream(comet.options(subscribe=topic, startingOffsets="earliest"), {})
    comet.send(topic, range(20), queues=1)
    spans = cluster_of(client_of(Words(comet.options())))
    real = type(spans).spans
    moved = {MessageQueue(topic, "broker-a", 0): 5}

    def spans_with_loss(self: Any, queues: Any) -> Any:
        return {queue: span._replace(low=moved.get(queue, span.low)) for queue, span in real(self, queues).items()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(spans), "spans", spans_with_loss)
        start = stream.at
        assert stream.batch() == list(range(5, 20))
        assert stream.at["$new"] == {topic: {"broker-a": {"0": 5}}}
        assert numbers_of(stream.read(start, stream.at)) == list(range(5, 20))
        assert stream.batch() is None
        comet.send(topic, [20], queues=1)
        assert stream.batch() == [20]
        assert "$new" not in stream.at
        # Expired behind our back: told, or passed over.
        moved[MessageQueue(topic, "broker-a", 0)] = 15
        old = {topic: {"broker-a": {"0": 10}}}
        with pytest.raises(OffsetsLost, match="offsets 10 to 15 of queue 0"):
            Stream(comet.options(subscribe=topic), old).batch()
        lenient = Stream(comet.options(subscribe=topic, failOnDataLoss="false"), old)
        assert lenient.rest() == [list(range(15, 21))]


def test_a_topic_made_anew_is_a_loss(comet: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cometmq.spark.cluster.BEHIND_MS", 300)
    topic = comet.topic(1)
    comet.send(topic, range(5), queues=1)
    ahead = {topic: {"broker-a": {"0": 100}}}
    with pytest.raises(OffsetsLost, match="was read up to 100"):
        Stream(comet.options(subscribe=topic), ahead).batch()
    lenient = Stream(comet.options(subscribe=topic, failOnDataLoss="false"), ahead)
    assert lenient.rest() == [list(range(5))]


def test_who_is_away_is_waited_for(comet: Server) -> None:
    """Nothing of a broker that is gone is passed over; after a time it is an error."""
    topic = comet.topic(1)
    comet.send(topic, range(5), queues=1)
    both = {topic: {"broker-a": {"0": 2}, "broker-z": {"0": 7}}}
    stream = Stream(comet.options(subscribe=topic), both)
    assert stream.batch() == [2, 3, 4]
    assert stream.at == {topic: {"broker-a": {"0": 5}, "broker-z": {"0": 7}}}
    for is_ending in (False, True):
        strict = Stream(comet.options(subscribe=topic, retryTimeoutMs=0), both)
        if is_ending:
            strict.reader.prepareForTriggerAvailableNow()
        with pytest.raises(PeerUnreachable, match="broker-z"):
            strict.batch()
    lenient = Stream(comet.options(subscribe=topic, retryTimeoutMs=0, failOnDataLoss="false"), both)
    lenient.reader.prepareForTriggerAvailableNow()
    assert lenient.rest() == [[2, 3, 4]]


def test_progress_is_committed_to_the_group(server: Server) -> None:
    topic = server.topic(1)
    group = f"progress-{topic}"
    server.send(topic, range(10), queues=1)
    options = server.options(subscribe=topic, startingOffsets="earliest", consumerGroup=group)
    stream = Stream(options)
    assert stream.batch() == list(range(10))
    stream.reader.commit(stream.at)
    cluster = cluster_of(client_of(Words(options)))
    queue = MessageQueue(topic, "broker-a", 0)
    assert cluster.committed(group, [queue]) == {queue: 10}
    latest = stream.reader.reportLatestOffset()
    assert latest is not None
    assert latest["$group"] == {"namesrvAddr": server.namesrv, "consumerGroup": group}
    server.send(topic, [10], queues=1)
    quiet = Stream({**options, "commitOffsets": "false", "startingOffsets": "committed"})
    assert quiet.batch() == [10]
    quiet.reader.commit(quiet.at)
    assert cluster.committed(group, [queue]) == {queue: 10}


def test_a_stream_needs_its_topic_at_first(comet: Server) -> None:
    with pytest.raises(TopicNotFound, match="no-such-topic"):
        Stream(comet.options(subscribe="no-such-topic"))
    with pytest.raises(TopicNotFound, match="no-such-topic"):
        Stream(comet.options(table="trace", traceTopic="no-such-topic"))


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"table": "lag"}, "no stream"),
        ({"subscribe": "t", "endingOffsets": "latest"}, "a stream has no end"),
        ({"storePath": "/x"}, "storePath is read at once"),
    ],
    ids=str,
)
def test_what_is_wrong_is_told_by_every_first_call(comet: Server, given: dict[str, str], told: str) -> None:
    """What making a reader raises, Spark loses."""
    made = source(given if "storePath" in given else comet.options(**given))
    reader: Any = made.streamReader(made.schema())
    revive, arguments = reader.__reduce__()
    for call in (
        reader.initialOffset,
        reader.prepareForTriggerAvailableNow,
        reader.getDefaultReadLimit,
        lambda: reader.latestOffset({}, ReadAllAvailable()),
        lambda: revive(*arguments).read(None),
    ):
        with pytest.raises(InvalidArgument, match=told):
            call()


def test_traces_may_come_later() -> None:
    """Nobody has sent any here: like dead letters and retries, there are none yet."""
    cluster = RunningCluster()
    cluster.start()
    try:
        assert Stream({"namesrvAddr": cluster.namesrv, "table": "trace"}).batch() is None
    finally:
        cluster.stop()


@pytest.mark.parametrize("is_ending", [False, True])
def test_a_replica_that_is_behind_is_waited_for(
    comet: Server, monkeypatch: pytest.MonkeyPatch, is_ending: bool
) -> None:
    """It ends before the place that the stream, or its group, has reached; a moment later it does not."""
    topic = comet.topic(1)
    comet.send(topic, range(10), queues=1)
    queue = MessageQueue(topic, "broker-a", 0)
    options = comet.options(subscribe=topic, consumerGroup=f"g-{topic}", startingOffsets="committed")
    assert read_all({**options, "startingOffsets": "earliest"}).num_rows == 10  # now the broker knows the group
    cluster = cluster_of(client_of(Words(options)))
    cluster.commit(f"g-{topic}", {queue: 9})
    real = Cluster.spans
    answers = 0

    def spans(self: Cluster, queues: Any) -> Any:
        nonlocal answers
        answers += 1
        found = real(self, queues)
        return {key: span._replace(high=8) for key, span in found.items()} if answers < 3 else found

    monkeypatch.setattr(Cluster, "spans", spans)
    stream = Stream(options)
    assert stream.at == {topic: {"broker-a": {"0": 9}}}
    if is_ending:
        stream.reader.prepareForTriggerAvailableNow()
    answers = 0
    assert stream.batch() == [9]
    assert answers >= 3


def test_a_batch_that_is_planned_again_is_the_first_thing_a_process_does(comet: Server) -> None:
    """A driver that was killed within a batch begins with it, before it asks how far the topic goes."""
    topic = comet.topic(1)
    comet.send(topic, range(5), queues=1)
    options = comet.options(subscribe=topic, startingOffsets="earliest", retryTimeoutMs=0, requestTimeoutMs=7_654)
    stream = Stream(options)
    start = stream.at
    assert stream.batch() == list(range(5))
    other_process = {**options, "requestTimeoutMs": "7655"}  # which has connections and routes of its own
    assert numbers_of(Stream(other_process, start).read(start, stream.at)) == list(range(5))


@pytest.mark.parametrize("offset", [[], {"t": 5}, {"t": {"b": {"x": 5}}}, {"t": {"b": {"0": "5"}}}, {"$new": []}, 7])
def test_a_checkpoint_that_is_none_of_ours_is_refused(comet: Server, offset: Any) -> None:
    stream = Stream(comet.options(subscribePattern="nothing"))
    with pytest.raises(InvalidArgument, match="the offset in the checkpoint"):
        stream.reader.latestOffset(offset, ReadAllAvailable())


def test_retries_of_pop_come_with_their_group(server: Server, popped: tuple[str, str]) -> None:
    """Both brokers call the retry topic `%RETRY%group_topic`, and make it when the first message comes back."""
    group, topic = popped
    stream = Stream(server.options(retry=group, startingOffsets="earliest"))
    numbers: list[int] = []
    deadline_s = time.monotonic() + 60
    while len(numbers) < 3:
        assert time.monotonic() < deadline_s
        numbers += stream.batch() or []
        time.sleep(0.1)
    assert sorted(numbers) == [0, 1, 2]
    assert stream.at[f"%RETRY%{group}_{topic}"] == {"broker-a": {"0": 3}}
    assert read_all(server.options(retry=group)).num_rows == 3
    assert read_all(server.options(retry="popped")).num_rows == 0  # a group whose name is the beginning of it
