"""Store folders that pass from one broker to the other: fill one, and take down all that a broker serves from it.

Segments are small, so files roll: 1 MiB of log, 300 units of a queue, 40 of one of batches, 500 keys of an index.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from tests.original import BrokerProcess, CometBroker, JavaBroker
from tests.original.jars import OLDER_VERSION, VERSION

from cometmq.errors import ProtocolError
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire import fastjson
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.record import decode_records
from cometmq.wire.requests.admin import CreateGroup, CreateTopic, GetGroupConfig, GetTopicConfig
from cometmq.wire.requests.consume import (
    GetMaxOffset,
    GetMinOffset,
    PullMessage,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from cometmq.wire.requests.query import QueryMessage, ViewMessage
from cometmq.wire.requests.send import SendBatchMessage, SendMessageV2
from cometmq.wire.schema import Header

from . import exchange_batches
from .broker_scripts import sub_record
from .exchange_searches import KEYS_MAX, keys_of, times_of, wrong_searches

SMALL_FILES: dict[str, object] = {
    "mappedFileSizeCommitLog": 1024 * 1024,
    "mappedFileSizeConsumeQueue": 300 * 20,
    "mapperFileSizeBatchConsumeQueue": 40 * 46,
    "maxHashSlotNum": 100,
    "maxIndexNum": 500,
    "waitTimeMillsInSendQueue": 10_000,
    "waitTimeMillsInPullQueue": 10_000,
    "flushConsumerOffsetInterval": 500,
}
TOPIC, GROUP, QUEUES = "exchanged", "exchangers", 3
LARGE = 200 * 1024
PULL_WITH_SUBSCRIPTION = 4
AWAIT_S = 20.0
QUERIES_AT_ONCE = 32
CREATE = CreateTopic(
    topic=TOPIC,
    default_topic="TBW102",
    read_queue_nums=QUEUES,
    write_queue_nums=QUEUES,
    perm=6,
    topic_filter_type="SINGLE_TAG",
)


def broker_of(kind: str, folder: Path, store: Path, namesrv: Sequence[str], **more: object) -> BrokerProcess:
    """A broker of a kind on a store folder, not started."""
    conf = {**SMALL_FILES, **more}
    if kind == "comet":
        return CometBroker(folder / kind, namesrv, store=store, conf=conf)
    version = OLDER_VERSION if kind == "older java" else VERSION
    return JavaBroker(folder / kind, namesrv, store=store, conf=conf, version=version)


@dataclass
class Served:
    """All that a broker says about a store."""

    records: dict[int, list[bytes]] = field(default_factory=dict)
    """By queue, the bytes of each message."""
    bounds: dict[int, tuple[str, str]] = field(default_factory=dict)
    topic: Any = None
    group: Any = None
    committed: dict[int, str] = field(default_factory=dict)
    by_key: dict[str, list[bytes]] = field(default_factory=dict)
    by_id: list[bytes] = field(default_factory=list)
    by_time: dict[int, dict[int, int]] = field(default_factory=dict)
    batches: dict[int, Any] = field(default_factory=dict)

    def wrong_searches(self, *, again: int = 0) -> list[str]:
        """What is not found by key or time as it should be, as far as that was asked; so many may be found `again`."""
        return wrong_searches(self.records, self.by_key, self.by_time, again=again)

    def differences(self, now: Served) -> list[str]:
        """What is served otherwise now, of what could be asked before."""
        names = [field.name for field in fields(self) if getattr(self, field.name)]
        return [f"{name} differ" for name in names if getattr(self, name) != getattr(now, name)]


def fill(broker: BrokerProcess, first: int, count: int, *, commit: bool = True) -> None:
    """Store messages of every kind: plain, tagged, with keys, large, in batches; and commit offsets."""
    asyncio.run(_with_channel(broker, lambda channel: _fill(channel, first, count, commit=commit)))


def served(broker: BrokerProcess, messages: int, *, older: bool = False) -> Served:
    """Take down what the broker serves, once it serves so many messages; of an `older` one less can be asked."""
    found: list[Served] = []

    async def look(channel: Channel) -> None:
        found.append(await _look(channel, messages, older=older))

    asyncio.run(_with_channel(broker, look))
    return found[0]


def stored_offsets(store: Path) -> dict[str, Any]:
    """What consumerOffset.json holds for the group."""
    try:
        saved = fastjson.loads((store / "config" / "consumerOffset.json").read_bytes())
    except (OSError, ProtocolError):  # not there yet, or just being written
        return {}
    table = saved.get("offsetTable", {})
    return dict(table.get(f"{TOPIC}@{GROUP}", {}))


def await_offsets_on_disk(store: Path, committed: dict[int, str]) -> None:
    """Wait until the offsets are saved: only then may the process be killed."""
    wanted = {str(queue): int(offset) for queue, offset in committed.items()}
    deadline = time.monotonic() + AWAIT_S
    while stored_offsets(store) != wanted:
        assert time.monotonic() < deadline, f"the offsets {wanted} were not saved: {stored_offsets(store)}"
        time.sleep(0.05)


def queue_files(store: Path) -> dict[str, bytes]:
    """The queue files of the topics, by their place."""
    roots = (store / "consumequeue" / TOPIC, store / "batchconsumequeue" / exchange_batches.TOPIC)
    return {
        str(path.relative_to(store)): path.read_bytes()
        for root in roots
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


async def _with_channel(broker: BrokerProcess, use: Callable[[Channel], Any]) -> None:
    channel = await connect(broker.addr)
    try:
        await use(channel)
    finally:
        channel.close()


async def _fill(channel: Channel, first: int, count: int, *, commit: bool) -> None:
    await channel.call(CREATE, timeout_ms=10_000)
    await channel.call(CreateGroup(), json.dumps({"groupName": GROUP, "retryMaxTimes": 7}).encode(), timeout_ms=10_000)
    for number in range(first, first + count):
        queue = number % QUEUES
        if number % 20 == 7:
            batch = b"".join(sub_record(b"b%d.%d" % (number, n), b"TAGS\x01batch\x02") for n in range(3))
            await channel.call(_send(SendBatchMessage, queue, "", batch=True), batch, timeout_ms=10_000)
            continue
        text = f"KEYS\x01key{number} even{number % 2}\x02UNIQ_KEY\x01unique{number}\x02"
        if number % 3:
            text += f"TAGS\x01tag{number % 3}\x02"
        body = b"large" * (LARGE // 5) if number % 50 == 3 else b"message %d" % number
        await channel.call(_send(SendMessageV2, queue, text), body, timeout_ms=10_000)
    await exchange_batches.fill_batches(channel, first, count)
    for queue in range(QUEUES if commit else 0):
        progress = UpdateConsumerOffset(
            topic=TOPIC, consumer_group=GROUP, queue_id=queue, commit_offset=first // 3 + queue
        )
        await channel.call(progress, timeout_ms=10_000)


def _send(kind: type[SendMessageV2], queue: int, text: str, *, batch: bool = False) -> SendMessageV2:
    now_ms = int(time.time() * 1000)
    return kind("producers", TOPIC, "TBW102", QUEUES, queue, 0, now_ms, 0, properties=text, batch=batch)


def messages_of(count: int) -> int:
    """How many messages `fill` makes of so many numbers that begin at a multiple of 20."""
    return count + 2 * sum(1 for number in range(count) if number % 20 == 7)


async def _look(channel: Channel, messages: int, *, older: bool) -> Served:
    found = Served()
    await _await_messages(channel, messages)
    if not older:
        found.batches = await exchange_batches.look_at_batches(channel, GROUP)
        found.topic = json.loads(bytes((await _ask(channel, GetTopicConfig(TOPIC))).body))
        found.group = json.loads(bytes((await _ask(channel, GetGroupConfig(GROUP))).body))
    for queue in range(QUEUES):
        least = (await _ask(channel, GetMinOffset(TOPIC, queue))).ext["offset"]
        most = (await _ask(channel, GetMaxOffset(TOPIC, queue))).ext["offset"]
        found.bounds[queue] = least, most
        found.records[queue] = await _pull_all(channel, queue, int(least))
        committed = QueryConsumerOffset(topic=TOPIC, consumer_group=GROUP, queue_id=queue)
        found.committed[queue] = (await _ask(channel, committed)).ext["offset"]
        if not older:
            found.by_time[queue] = await _by_time(channel, queue, found.records[queue])
    keys = list(keys_of(found.records))
    for first in range(0, len(keys), QUERIES_AT_ONCE):
        some = keys[first : first + QUERIES_AT_ONCE]
        answers = await asyncio.gather(*(_by_key(channel, key) for key in some))
        found.by_key.update(zip(some, answers, strict=True))
    for record in decode_records(b"".join(found.records[0][::40])):
        found.by_id.append(bytes((await _ask(channel, ViewMessage(record.physical_offset))).body))
    return found


async def _ask(channel: Channel, request: Header) -> Command:
    return await channel.call(request, timeout_ms=10_000)


async def _await_messages(channel: Channel, messages: int) -> None:
    """Dispatch follows storing: wait until the queues hold all."""
    batched = exchange_batches.messages_of(
        next(count for count in range(messages + 1) if messages_of(count) == messages)
    )
    deadline = time.monotonic() + AWAIT_S
    while True:
        ends = [int((await _ask(channel, GetMaxOffset(TOPIC, queue))).ext["offset"]) for queue in range(QUEUES)]
        if sum(ends) >= messages and await exchange_batches.ends(channel) >= batched:
            assert sum(ends) == messages and await exchange_batches.ends(channel) == batched
            return
        assert time.monotonic() < deadline, f"{messages} messages were stored, the queues end at {ends}"
        await asyncio.sleep(0.05)


async def _pull_all(channel: Channel, queue: int, offset: int) -> list[bytes]:
    records: list[bytes] = []
    while True:
        pull = PullMessage(GROUP, TOPIC, queue, offset, 32, PULL_WITH_SUBSCRIPTION, 0, 0, 0, subscription="*")
        answer = await channel.exchange(pull.command(), timeout_ms=10_000)
        if answer.code != ResponseCode.SUCCESS:
            return records
        body, at = bytes(answer.body), 0
        for record in decode_records(body, check_crc=True):
            assert record.queue_offset == offset
            records.append(body[at : at + record.size])
            at, offset = at + record.size, offset + 1


async def _by_key(channel: Channel, key: str) -> list[bytes]:
    query = QueryMessage(topic=TOPIC, key=key, max_num=KEYS_MAX, begin_timestamp=0, end_timestamp=1 << 42)
    deadline = time.monotonic() + AWAIT_S
    while True:  # the index follows the queues
        answer = await channel.exchange(query.command(), timeout_ms=10_000)
        if answer.code == ResponseCode.SUCCESS:
            body = bytes(answer.body)
            sizes = [record.size for record in decode_records(body)]
            return sorted(body[sum(sizes[:n]) : sum(sizes[: n + 1])] for n in range(len(sizes)))
        assert time.monotonic() < deadline, f"{key} is not in the index: {answer!r}"
        await asyncio.sleep(0.05)


async def _by_time(channel: Channel, queue: int, records: list[bytes]) -> dict[int, int]:
    return {
        when: int((await _ask(channel, SearchOffset(TOPIC, queue, when))).ext["offset"]) for when in times_of(records)
    }
