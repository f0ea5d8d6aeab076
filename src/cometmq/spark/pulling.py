"""Reading a fixed range of a queue by pulls, as Arrow record batches.

    asked      [at ......)[......)[......)      several pulls are under way, each where the one before should end
    answered   [at ...)                         a shorter answer: those behind it are forgotten, and asked for again

How many messages a pull brings is the broker's to say (`maxTransferCountOnMessageInMemory` and its kin), so the first
asks for many, and the others for as many as came. With a filter nobody knows where a pull ends; then one is under way
while the one before is decoded.

Invariant: without a filter every offset of the range becomes a row, or the reading fails with `OffsetsLost`, or (where
that was asked for) says in the log what is missing. A range read again gives the same rows.

Mirrors: PullAPIWrapper, DefaultLitePullConsumerImpl.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow
import pyarrow.compute

from cometmq.client.wanted import subscription
from cometmq.columns import BATCH_SIZE, RecordColumns
from cometmq.columns.bodies import Say, Unpacker
from cometmq.errors import CometError, CorruptRecord, OffsetsLost, PeerRefused, RequestRefused
from cometmq.model.subscription import SubscriptionData
from cometmq.model.sysflag import MessageFlag, PullFlag
from cometmq.net.blocking_channel import BlockingChannel
from cometmq.spark.cluster import BEHIND_MS, PAUSE_MAX_S, PAUSE_S, Cluster, worth_another
from cometmq.spark.offsets import Range
from cometmq.wire.batch import split_batch
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Body, Command
from cometmq.wire.record import decode_records, encode_record
from cometmq.wire.requests.consume import PullMessage, PullMessageReply

log = logging.getLogger("cometmq.spark")

TOOLS_GROUP: Final = "TOOLS_CONSUMER"  # every broker knows it
AT_ONCE_MAX: Final = 1024
UNDER_WAY: Final = 16
UNDER_WAY_LOW: Final = 8  # refilled when so few are left: one write for many requests
LOOK_AGAIN_AFTER: Final = 64  # pulls after which one asks for many again: old messages come in smaller answers

_FOUND: Final = int(ResponseCode.SUCCESS)
_NOTHING: Final = int(ResponseCode.PULL_NOT_FOUND)
_NONE_MATCHED: Final = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
_MOVED: Final = int(ResponseCode.PULL_OFFSET_MOVED)
_BATCH: Final = int(MessageFlag.INNER_BATCH | MessageFlag.NEED_UNWRAP)


@dataclass(frozen=True, slots=True)
class PullSettings:
    """How ranges are read."""

    columns: tuple[str, ...]
    group: str = TOOLS_GROUP
    tags: str | None = None
    sql: str | None = None
    fail_on_data_loss: bool = True
    retry_ms: int = 120_000

    @property
    def is_filtered(self) -> bool:
        return self.sql is not None or bool(self.wanted().tags_set)

    def wanted(self) -> SubscriptionData:
        return subscription("any", self.tags, self.sql)


class RangeReader:
    """Pulls one range; `batches` yields what it holds."""

    def __init__(self, cluster: Cluster, one: Range, settings: PullSettings) -> None:
        self._cluster = cluster
        self._range = one
        self._settings = settings
        self._wanted = settings.wanted()
        self._asked = subscription("any") if one.in_batches else self._wanted
        self._is_filtered = settings.is_filtered and not one.in_batches
        # Brokers compare hashes of tags; which tag it really is, is tested here.
        self._tags = pyarrow.array(sorted(self._wanted.tags_set), pyarrow.string()) if self._wanted.tags_set else None
        walked = settings.columns
        if self._tags is not None and "tags" not in walked:
            walked = (*walked, "tags")
        self._say = None if settings.fail_on_data_loss else log.warning
        self._columns = RecordColumns(walked, one.broker, unpack=Unpacker(self._say))
        self._at = one.start
        self._step = 0  # messages that an answer brings; 0 until one has
        self._pulls = 0
        self._deadline_s = 0.0
        self._behind_since_s: float | None = None
        self._pause_s = 0.0

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        self._progress()
        while self._at < self._range.end:
            try:
                yield from self._pull_on(self._channel())
            except CometError as fault:
                self._rest(fault)
        yield from self._take()

    def _channel(self) -> BlockingChannel:
        try:
            return self._cluster.channel(self._range.broker)
        except CometError:
            self._cluster.route(self._range.topic)  # it may be elsewhere now
            return self._cluster.channel(self._range.broker)

    # --- time

    def _progress(self) -> None:
        self._deadline_s = time.monotonic() + self._settings.retry_ms / 1000
        self._behind_since_s = None
        self._pause_s = 0.0

    def _rest(self, fault: CometError) -> None:
        """Wait before the next attempt; or raise, if it would bring nothing or there were attempts enough."""
        if isinstance(fault, PeerRefused) and not worth_another(fault):
            raise self._in_words(fault) from None
        if not worth_another(fault) or (self._pause_s and time.monotonic() + self._pause_s > self._deadline_s):
            raise fault
        if self._pause_s:
            log.warning("reading %s: %s; trying again", self._range, fault)
        time.sleep(self._pause_s)
        self._pause_s = min(PAUSE_MAX_S, self._pause_s * 2 or PAUSE_S)

    def _in_words(self, fault: PeerRefused) -> CometError:
        hint = ""
        if fault.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
            hint = f" Create the group {self._settings.group}, or leave consumerGroup out."
        elif self._settings.sql is not None:
            hint = " For sqlFilter the broker must allow it: enablePropertyFilter=true in its configuration."
        return PeerRefused(fault.code, f"{fault.remark} ({self._range}).{hint}", fault.peer)

    # --- pulls

    def _request(self, offset: int, count: int) -> PullMessage:
        wanted, one = self._asked, self._range
        return PullMessage(
            self._settings.group,
            one.topic,
            one.queue,
            offset,
            count,
            int(PullFlag.SUBSCRIPTION),
            0,
            0,
            wanted.sub_version,
            wanted.sub_string,
            wanted.expression_type,
        )

    def _pull_on(self, channel: BlockingChannel) -> Iterator[pyarrow.RecordBatch]:
        """Pull until the range ends, or an answer does not fit what was asked behind it."""
        under_way: deque[tuple[int, int]] = deque()  # number of the request, offset asked for
        timeout_ms = self._cluster.options.request_timeout_ms
        ask_at = self._at
        try:
            while self._at < self._range.end:
                ask_at = self._ask_ahead(channel, under_way, ask_at)
                number, asked = under_way.popleft()
                answer = channel.answer(number, timeout_ms=timeout_ms)
                if asked != self._at:
                    return
                if self._is_filtered and (following := _next(answer)) is not None and following < self._range.end:
                    under_way.append((channel.ask(self._request(following, AT_ONCE_MAX))[0], following))
                yield from self._receive(answer)
                if under_way and under_way[0][1] != self._at:
                    return
                if not under_way:
                    ask_at = self._at
        finally:
            if channel.is_open:
                for number, _ in under_way:
                    channel.forget(number)

    def _ask_ahead(self, channel: BlockingChannel, under_way: deque[tuple[int, int]], ask_at: int) -> int:
        if self._is_filtered or not self._step:
            if not under_way:
                count = AT_ONCE_MAX if self._is_filtered else min(AT_ONCE_MAX, self._range.end - self._at)
                under_way.append((channel.ask(self._request(self._at, count))[0], self._at))
            return self._range.end if not self._is_filtered else ask_at
        wanted: list[tuple[int, int]] = []
        if len(under_way) > UNDER_WAY_LOW:
            return ask_at
        while ask_at < self._range.end and len(under_way) + len(wanted) < UNDER_WAY:
            count = min(self._step, self._range.end - ask_at)
            wanted.append((ask_at, count))
            ask_at += count
        if wanted:
            numbers = channel.ask(*[self._request(offset, count) for offset, count in wanted])
            under_way.extend((number, offset) for number, (offset, _) in zip(numbers, wanted, strict=True))
        return ask_at

    # --- answers

    def _receive(self, answer: Command) -> Iterator[pyarrow.RecordBatch]:
        code, end = answer.code, self._range.end
        if code not in (_FOUND, _NOTHING, _NONE_MATCHED, _MOVED):
            raise PeerRefused(answer.code, answer.remark or "", f"broker {self._range.broker}")
        reply = PullMessageReply.read(answer.ext)
        following = reply.next_begin_offset
        if code == _FOUND and following > self._at:
            yield from self._add(answer.body, min(following, end))
            self._measure(following - self._at)
            self._at = min(following, end)
            self._progress()
            if self._columns.size >= BATCH_SIZE:
                yield from self._take()
        elif code == _NONE_MATCHED and self._is_filtered and following > self._at:
            self._at = min(following, end)
            self._progress()
        elif following > self._at and code != _NOTHING and reply.max_offset > self._at:
            self._lost(self._at, min(following, end), f"the queue begins at {reply.min_offset} now")
            self._at = min(following, end)
            self._progress()
        else:
            self._behind(reply.max_offset)

    def _measure(self, count: int) -> None:
        self._pulls += 1
        is_due = self._pulls % LOOK_AGAIN_AFTER == 0
        self._step = 0 if is_due and self._step < AT_ONCE_MAX else count

    def _behind(self, high: int) -> None:
        """The queue ends before the range does: wait a moment, then take it as it is."""
        now_s = time.monotonic()
        if self._behind_since_s is None:
            self._behind_since_s = now_s
        if now_s < self._behind_since_s + BEHIND_MS / 1000:
            time.sleep(PAUSE_S)
            return
        self._lost(self._at, self._range.end, f"the queue ends at {high} now")
        self._at = self._range.end

    def _lost(self, start: int, end: int, why: str) -> None:
        lost = OffsetsLost(self._range.topic, self._range.broker, self._range.queue, start, end, why)
        if self._settings.fail_on_data_loss:
            raise lost
        log.warning("%s; going on, as failOnDataLoss is false", lost)

    # --- rows

    def _add(self, body: Body, end: int) -> Iterator[pyarrow.RecordBatch]:
        if not self._range.in_batches:
            count = self._columns.add(body, self._at, end)
            if self._is_filtered or count == end - self._at:
                return
            # Either a record is missing, or one holds a batch of messages after all: look closely.
            kept = self._columns.batch()
            yield from self._finish(kept.slice(0, kept.num_rows - count))
        count = self._columns.add(_opened(body, self._say), self._at, end)
        if count != end - self._at:
            why = f"{end - self._at - count} of them are missing in the broker's answer (is the topic compacted?)"
            self._lost(self._at, end, why)

    def _take(self) -> Iterator[pyarrow.RecordBatch]:
        if self._columns.rows:
            yield from self._finish(self._columns.batch())

    def _finish(self, batch: pyarrow.RecordBatch) -> Iterator[pyarrow.RecordBatch]:
        if self._tags is not None:
            batch = batch.filter(pyarrow.compute.is_in(batch.column("tags"), value_set=self._tags))
            if "tags" not in self._settings.columns:
                batch = batch.select(list(self._settings.columns))
        if batch.num_rows:
            yield batch


def _next(answer: Command) -> int | None:
    """Where to go on behind an answer that can be trusted to say so."""
    if answer.code not in (_FOUND, _NONE_MATCHED):
        return None
    return PullMessageReply.read(answer.ext).next_begin_offset


def _opened(body: Body, say: Say | None) -> bytes:
    """The records of an answer, with those that hold a batch replaced by one for each message in it.

    A batch that cannot be opened is an error; or it is left out, where there is somebody to `say` it to.
    """
    parts: list[bytes] = []
    for record in decode_records(body):
        inner: list[tuple[int, Body, Body]]
        if record.sys_flag & _BATCH == _BATCH:
            try:
                inner = list(split_batch(record.body))
            except RequestRefused as fault:
                corrupt = CorruptRecord("", record.physical_offset, f"a batch that cannot be opened: {fault}")
                if say is None:
                    raise corrupt from None
                say(str(corrupt))
                continue
        else:
            inner = [(record.flag, record.body, record.properties_text.encode())]
        parts += [
            encode_record(
                topic=record.topic.encode(),
                queue_id=record.queue_id,
                flag=flag,
                queue_offset=record.queue_offset + number,
                physical_offset=record.physical_offset,
                sys_flag=record.sys_flag & ~_BATCH,
                born_time_ms=record.born_time_ms,
                born_host=record.born_host,
                store_time_ms=record.store_time_ms,
                store_host=record.store_host,
                reconsume_times=record.reconsume_times,
                body=inner_body,
                properties_data=bytes(property_data),
            )
            for number, (flag, inner_body, property_data) in enumerate(inner)
        ]
    return b"".join(parts)


def read_ranges(
    cluster: Cluster,
    ranges: Iterator[Range] | list[Range],
    settings: PullSettings,
    change: Callable[[pyarrow.RecordBatch], pyarrow.RecordBatch] | None = None,
) -> Iterator[pyarrow.RecordBatch]:
    """What some ranges hold, one after the other."""
    for one in ranges:
        for batch in RangeReader(cluster, one, settings).batches():
            yield batch if change is None else change(batch)
