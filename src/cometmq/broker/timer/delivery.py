"""From the record that waits to the message that is delivered, or rolled on.

Delivered, it goes where it was going when it was sent, with what Java tells of the way: `TIMER_ENQUEUE_MS` (when it
was put on the wheel; the largest long if its time had come before that) and `TIMER_DEQUEUE_MS`. Rolled, it goes to
the timer topic once more: its time is beyond the wheel's window, and `TIMER_ROLL_TIMES` counts.
Either way its mark names the record it was made from (`delivered_marks`).

Mirrors: TimerMessageStore.convert, convertMessage, buildDeleteKey.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from cometmq.broker.delivered_marks import TIMER_SOURCE, Mark, put_mark
from cometmq.broker.inner_messages import InnerMessage
from cometmq.errors import CorruptRecord
from cometmq.model import properties
from cometmq.model.names import TIMER_TOPIC
from cometmq.store.commit_log import Range
from cometmq.wire.record import Record, decode_record

READY_SIZE: Final = 750  # of a `Ready` without its bytes: tuples, numbers, short strings
NEVER_ENQUEUED: Final = str((1 << 63) - 1)
_SPAN_MAX: Final = 1 << 20
_GAP_MAX: Final = 16 << 10

Load = Callable[[Sequence[Range]], list[bytes]]


class Ready(NamedTuple):
    """A message of which only the storing is left, and the time at which that happens."""

    pos: int  # of its unit in the timer log
    topic: str  # for which it waited
    out_ms: int
    key: str  # what a recall would name it by
    recalls: str | None  # it is such a recall itself, on its way to its slot
    staged: bool  # whether a stage may want to see it
    to_topic: str  # where it is stored: rolled, in the timer topic
    queue_id: int
    body: bytes
    properties_data: bytes
    rest: tuple[Any, ...]  # what `Store.append` takes behind the properties

    @property
    def memory_size(self) -> int:
        """Bytes that it takes here: many wait so, and what Python keeps of a small one is larger than the message."""
        return READY_SIZE + len(self.body) + len(self.properties_data) + len(self.key)

    def message(self) -> InnerMessage:
        """The same, as something that can still be changed."""
        _, _, _, flag, sys_flag, born_time_ms, born_host, reconsume_times, _ = self.rest
        found = properties.parse(self.properties_data.decode())
        return InnerMessage(
            self.to_topic, self.queue_id, self.body, found, flag, sys_flag, born_time_ms, born_host, reconsume_times
        )


def make_ready(record: Record, pos: int, write_time_ms: int, *, roll: bool, with_topic: bool) -> Ready | None:
    """What is delivered from a record, all but the time at which it is; None if it does not say where to."""
    found = record.properties
    queue_id = found.get(properties.REAL_QUEUE_ID, "")
    if properties.REAL_TOPIC not in found or not queue_id.isdecimal():
        return None
    topic, out_ms = found[properties.REAL_TOPIC], int(found[properties.TIMER_OUT_MS])
    late = out_ms < write_time_ms and not roll
    found[properties.TIMER_ENQUEUE_MS] = NEVER_ENQUEUED if late else str(write_time_ms)
    found.pop(properties.TIMER_DEQUEUE_MS, None)
    put_mark(found, Mark(TIMER_SOURCE, record.queue_id, record.queue_offset, record.physical_offset))
    if roll:
        times = found.get(properties.TIMER_ROLL_TIMES, "0")
        found[properties.TIMER_ROLL_TIMES] = str(int(times) + 1 if times.isdecimal() else 1)
    uniq_key = found.get(properties.UNIQ_KEY)
    return Ready(
        pos,
        topic,
        out_ms,
        delete_key(topic, uniq_key or "", with_topic=with_topic),
        found.get(properties.TIMER_DEL_UNIQKEY),
        roll or properties.DELAY in found,
        record.topic if roll else topic,
        record.queue_id if roll else int(queue_id),
        record.body,
        properties.render(found).encode(),
        (
            found.get(properties.TAGS),
            found.get(properties.KEYS),
            uniq_key,
            record.flag,
            record.sys_flag,
            record.born_time_ms,
            record.born_host,
            record.reconsume_times,
            0,
        ),
    )


def time_property(now_ms: int) -> bytes:
    """The last property of what is delivered now."""
    return f"{properties.TIMER_DEQUEUE_MS}\x01{now_ms}\x02".encode()


def delete_key(real_topic: str, uniq_key: str, *, with_topic: bool) -> str:
    """What a mark of recall names its message by."""
    return f"{real_topic}+{uniq_key}" if with_topic else uniq_key


def waiting_record(data: bytes | memoryview | None, offset: int) -> Record | None:
    """The record at `offset`, if it is one that waits; after damage anything may stand there."""
    if data is None:
        return None
    try:
        record = decode_record(data)
    except CorruptRecord:
        return None
    return record if record.topic == TIMER_TOPIC and record.physical_offset == offset else None


async def load_records(load: Load, ranges: Sequence[Range], segment_size: int) -> list[memoryview | None]:
    """The bytes of each range, read in a thread: what waited for days is on disk only."""
    spans = _spans(ranges, segment_size)

    def read() -> dict[int, bytes]:
        return {start: data for start, end in spans for data in load([(start, end - start)])}

    loaded = await asyncio.get_running_loop().run_in_executor(None, read)
    views = [(start, memoryview(loaded[start])) for start, _ in spans if start in loaded]
    found: dict[int, memoryview] = {}
    at = 0
    for offset, size in sorted(set(ranges)):
        while at < len(views) and views[at][0] + len(views[at][1]) <= offset:
            at += 1
        if at < len(views) and views[at][0] <= offset:
            start, view = views[at]
            found[offset] = view[offset - start : offset - start + size]
    return [found.get(offset) for offset, _ in ranges]


def _spans(ranges: Sequence[Range], segment_size: int) -> list[tuple[int, int]]:
    """Few long reads instead of many short ones: neighbours, nearly, of one segment."""
    spans: list[tuple[int, int]] = []
    for offset, size in sorted(set(ranges)):
        if spans:
            start, end = spans[-1]
            near = offset - end <= _GAP_MAX and offset + size - start <= _SPAN_MAX
            if near and start // segment_size == offset // segment_size:
                spans[-1] = (start, max(end, offset + size))
                continue
        spans.append((offset, offset + size))
    return spans
