"""The options of writing, checked before any server is asked.

Whatever is wrong raises `InvalidArgument` with a sentence that names the option.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

from cometmq.client.message import check_topic
from cometmq.client.options import ClientOptions
from cometmq.errors import InvalidArgument, InvalidName
from cometmq.spark.connecting import CONNECTING, client_of
from cometmq.spark.options import WRITING, Words, group_of
from cometmq.spark.sink_log import WRITES, SinkLog, folder_of
from cometmq.spark.sink_manifest import NAME

AT_LEAST_ONCE: Final = "at-least-once"
EXACTLY_ONCE: Final = "exactly-once"
RETRY_MS: Final = 120_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """All options of writing; plain values, so that they travel to the tasks."""

    client: ClientOptions
    retry_ms: int
    topic: str | None
    id_column: str | None
    group: str
    sink_log: str | None  # of exactly-once, which has one
    first_batch: int  # that a query may begin to use its log with
    write_id: str  # of a batch write; a stream has its query's id
    is_named: bool  # and so may be started again

    @property
    def exactly_once(self) -> bool:
        return self.sink_log is not None

    def log(self) -> SinkLog:
        assert self.sink_log is not None
        return SinkLog.at(self.sink_log)

    @classmethod
    def of(cls, given: Mapping[str, str], *, is_stream: bool) -> WriteOptions:
        """Read and check everything."""
        words = Words(given)
        exactly = check_words(words, is_stream=is_stream)
        topic, sink_log, write_id = words.text("topic"), words.text("sinkLog"), words.text("writeId")
        group = group_of(words, "producerGroup")
        if group is None:
            group = f"spark-{SinkLog.at(sink_log).id[:16]}" if exactly and sink_log is not None else "spark-sink"
        retry_ms = words.number("retryTimeoutMs", at_least=0)
        return cls(
            client=client_of(words),
            retry_ms=RETRY_MS if retry_ms is None else retry_ms,
            topic=topic,
            id_column=words.text("idColumn"),
            group=group,
            sink_log=sink_log if exactly else None,
            first_batch=words.number("firstBatch", at_least=0) or 0,
            write_id=f"{WRITES}{write_id or uuid4().hex}",
            is_named=write_id is not None,
        )


def check_words(words: Words, *, is_stream: bool) -> bool:
    """What can be checked without a server and a disk; returns whether exactly-once is meant."""
    words.check_known((*CONNECTING, *WRITING), "a write")
    topic = words.text("topic")
    if topic is not None:
        try:
            check_topic(topic)
        except InvalidName as fault:
            raise InvalidArgument(f"the option topic: {fault}") from None
    sink_log = words.text("sinkLog")
    exactly = words.one_of("guarantee", (AT_LEAST_ONCE, EXACTLY_ONCE), AT_LEAST_ONCE) == EXACTLY_ONCE
    if exactly and sink_log is None:
        raise InvalidArgument(
            "guarantee=exactly-once needs the option sinkLog: a folder that every driver of this query reaches, "
            "where it writes down what a batch consists of before it is delivered"
        )
    if sink_log is not None:
        if not exactly:
            raise InvalidArgument("the option sinkLog is of guarantee=exactly-once")
        folder_of(sink_log)
    if "firstBatch" in words and not (is_stream and exactly):
        raise InvalidArgument("the option firstBatch is of streams with guarantee=exactly-once")
    write_id = words.text("writeId")
    if write_id is not None and (is_stream or not exactly):
        raise InvalidArgument("the option writeId is of batch writes with guarantee=exactly-once: it names one of them")
    if write_id is not None and NAME.fullmatch(write_id) is None:
        raise InvalidArgument(
            f"the option writeId is {write_id!r}; letters, digits, _ . and - are possible, 100 of them"
        )
    group_of(words, "producerGroup")
    words.number("retryTimeoutMs", at_least=0)
    words.number("firstBatch", at_least=0)
    return exactly
