"""The records of a log, one after the other, as a list to read or as JSON lines.

The log is walked, so this also works without queues and without index. Where it is damaged a line says so, and the
list goes on behind the damage.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cometmq.model import properties
from cometmq.store.damage import sound_behind
from cometmq.store.inspection.folder import Folder
from cometmq.store.log_walk import Walk, WalkEnd
from cometmq.wire.record import Record, decode_record, host_text

BODY_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which records: all that fit everything that is given. Ends are not included."""

    topic: str | None = None
    queue_id: int | None = None
    offset: int | None = None  # of the queue
    offset_end: int | None = None
    physical: int | None = None  # of the log
    physical_end: int | None = None
    key: str | None = None  # one of KEYS, or the unique key

    def fits(self, record: Record) -> bool:
        if self.queue_id is not None and record.queue_id != self.queue_id:
            return False
        if self.offset is not None and record.queue_offset < self.offset:
            return False
        if self.offset_end is not None and record.queue_offset >= self.offset_end:
            return False
        if self.key is not None:
            found = record.properties
            keys = found.get(properties.KEYS, "").split(properties.KEY_SEPARATOR)
            return self.key in (*keys, found.get(properties.UNIQ_KEY))
        return True


@dataclass(frozen=True, slots=True)
class Gap:
    """Bytes of the log that are no records."""

    start: int
    end: int


def records(folder: Folder, wanted: Wanted) -> Iterator[Record | Gap]:
    """The wanted records, and the gaps between any."""
    log = folder.log
    topic = None if wanted.topic is None else wanted.topic.encode()
    at = max(wanted.physical or 0, log.min_offset)
    stop = log.end if wanted.physical_end is None else min(wanted.physical_end, log.end)
    if (segment := log.segment_of(at)) is not None:
        at = _first_at_or_behind(folder, segment.start, at)
    while at < stop:
        segment = log.segment_of(at)
        if segment is None:
            goes_on = min((start for start in log.segments if start > at), default=None)
        else:
            view = log.view_of(segment.start)
            walk = Walk(view, segment.start, at - segment.start, check_crc=True)
            for found in walk:
                if segment.start + found[0] >= stop:
                    return
                if topic is None or found[6] == topic:
                    record = decode_record(view, found[0])
                    if wanted.fits(record):
                        yield record
            if walk.end is WalkEnd.NEXT_SEGMENT:
                at = segment.end
                continue
            at = segment.start + walk.at
            goes_on = next((offset for offset, _ in sound_behind(log, at)), None)
        if goes_on is None:
            return
        yield Gap(at, goes_on)
        at = goes_on


def _first_at_or_behind(folder: Folder, start: int, at: int) -> int:
    """Where the first record begins that does not stand before `at`."""
    walk = Walk(folder.log.view_of(start), start, 0, check_crc=False)
    for found in walk:
        if start + found[0] >= at:
            return start + found[0]
    return at if start + walk.at < at and walk.end is WalkEnd.NO_RECORD else start + walk.at


def to_json(record: Record) -> dict[str, Any]:
    """A record for programs; a body that is no text comes as base64."""
    fields: dict[str, Any] = {
        "physicalOffset": record.physical_offset,
        "size": record.size,
        "topic": record.topic,
        "queueId": record.queue_id,
        "queueOffset": record.queue_offset,
        "sysFlag": record.sys_flag,
        "flag": record.flag,
        "bornTimestamp": record.born_time_ms,
        "bornHost": host_text(record.born_host),
        "storeTimestamp": record.store_time_ms,
        "storeHost": host_text(record.store_host),
        "reconsumeTimes": record.reconsume_times,
        "preparedTransactionOffset": record.prepared_offset,
        "properties": record.properties,
    }
    try:
        fields["body"] = record.body.decode()
    except UnicodeDecodeError:
        fields["bodyBase64"] = base64.b64encode(record.body).decode()
    return fields


def to_line(record: Record) -> str:
    """A record for people."""
    found = record.properties
    time = _time_text(record.store_time_ms)
    words = [found[name] for name in (properties.TAGS, properties.KEYS) if name in found]
    body = record.body[:BODY_SHOWN].decode("utf-8", "replace")
    shown = "".join(char if char.isprintable() else "." for char in body)
    more = "…" if len(record.body) > BODY_SHOWN else ""
    place = f"{record.topic}/{record.queue_id}/{record.queue_offset}"
    return f"{record.physical_offset:>12} {record.size:>7} {time} {place} [{' '.join(words)}] {shown}{more}"


def _time_text(time_ms: int) -> str:
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError, OSError):  # no CRC covers it
        return str(time_ms)
