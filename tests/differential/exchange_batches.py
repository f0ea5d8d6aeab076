"""The part of an exchanged store that is a topic of batches: batches of one to six, and messages that come alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from cometmq.net.channel import Channel
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import decode_records
from cometmq.wire.requests.admin import CreateTopic, GetTopicConfig
from cometmq.wire.requests.consume import GetEarliestStoreTime, GetMaxOffset, GetMinOffset, PullMessage, SearchOffset
from cometmq.wire.requests.send import SendBatchMessage, SendMessageV2
from cometmq.wire.schema import Header

from .broker_scripts import sub_record

TOPIC, QUEUES = "exchangedBatches", 2
PULL_WITH_SUBSCRIPTION = 4
CREATE = CreateTopic(
    topic=TOPIC,
    default_topic="TBW102",
    read_queue_nums=QUEUES,
    write_queue_nums=QUEUES,
    perm=6,
    topic_filter_type="SINGLE_TAG",
    attributes="+queue.type=BatchCQ",
)


def sizes(first: int, count: int) -> Iterator[tuple[int, int]]:
    """Which numbers of a filling make a batch, and of how many messages; 0: one that comes alone."""
    return ((number, number % 7) for number in range(first, first + count) if number % 4 == 1)


def messages_of(count: int) -> int:
    return sum(max(size, 1) for _, size in sizes(0, count))


async def fill_batches(channel: Channel, first: int, count: int) -> None:
    """Store batches, beside everything else."""
    if (await channel.exchange(GetTopicConfig(TOPIC).command(), timeout_ms=10_000)).code != ResponseCode.SUCCESS:
        await channel.call(CREATE, timeout_ms=10_000)
    for number, size in sizes(first, count):
        queue = number // 4 % QUEUES
        text = f"KEYS\x01batch{number}\x02UNIQ_KEY\x01unique{number}\x02"
        if number % 3:
            text += f"TAGS\x01tag{number % 3}\x02"
        kind, body = SendMessageV2, b"alone %d" % number
        if size:
            kind, body = SendBatchMessage, b"".join(sub_record(b"b%d" % n, b"TAGS\x01in\x02") for n in range(size))
        now_ms = int(time.time() * 1000)
        send = kind("producers", TOPIC, "TBW102", QUEUES, queue, 0, now_ms, 0, properties=text, batch=bool(size))
        await channel.call(send, body, timeout_ms=10_000)


async def ends(channel: Channel) -> int:
    """How many messages the queues hold."""
    return sum([await _offset(channel, GetMaxOffset(TOPIC, queue)) for queue in range(QUEUES)])


async def look_at_batches(channel: Channel, group: str) -> dict[int, Any]:
    """All that a broker says about the queues."""
    return {queue: await _look(channel, group, queue) for queue in range(QUEUES)}


async def _look(channel: Channel, group: str, queue: int) -> dict[str, Any]:
    records = await _pull_all(channel, group, queue)
    times = [record.store_time_ms for record in decode_records(b"".join(records))]
    earliest = await channel.call(GetEarliestStoreTime(TOPIC, queue), timeout_ms=10_000)
    assert times[0] == int(earliest.ext["timestamp"])
    return {
        "records": records,
        "bounds": [await _offset(channel, kind(TOPIC, queue)) for kind in (GetMinOffset, GetMaxOffset)],
        "by time": [
            await _offset(channel, SearchOffset(TOPIC, queue, when, boundary))
            for when in [0, *times[::5], times[-1] + 1, 1 << 42]
            for boundary in ("LOWER", "UPPER")
        ],
        "tagged": [await _pull(channel, group, queue, offset, "tag1") for offset in range(0, len(records), 9)],
    }


async def _offset(channel: Channel, request: Header) -> int:
    return int((await channel.call(request, timeout_ms=10_000)).ext["offset"])


async def _pull(channel: Channel, group: str, queue: int, offset: int, tags: str = "*") -> tuple[int, int, bytes]:
    pull = PullMessage(group, TOPIC, queue, offset, 32, PULL_WITH_SUBSCRIPTION, 0, 0, 0, subscription=tags)
    answer = await channel.exchange(pull.command(), timeout_ms=10_000)
    return answer.code, int(answer.ext["nextBeginOffset"]), bytes(answer.body)


async def _pull_all(channel: Channel, group: str, queue: int) -> list[bytes]:
    records: list[bytes] = []
    offset = 0
    while True:
        code, next_offset, body = await _pull(channel, group, queue, offset)
        if code != ResponseCode.SUCCESS:
            return records
        at = 0
        for record in decode_records(body, check_crc=True):
            assert record.queue_offset == offset
            records.append(body[at : at + record.size])
            at, offset = at + record.size, offset + int(record.properties.get("INNER_NUM", 1))
        assert offset == next_offset
