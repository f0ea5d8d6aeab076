"""Requests, encoded before the clock starts; only what must differ is patched while it runs.

A block is some whole frames in one buffer. Each has its opaque at a known place, nine digits wide, and each message
its unique key, of which the last eight digits are counted up: a send costs the driver two slice assignments.
The requests are those of the Java client: JSON headers, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE with the properties
UNIQ_KEY, TAGS and WAIT, pulls with their subscription.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Final, Protocol

from bench.workloads import BATCH_COUNT, BODY_SIZE, PULL_COUNT, QUEUES
from cometmq.model.sysflag import PullFlag
from cometmq.wire.batch import encode_batch
from cometmq.wire.codes import LanguageCode
from cometmq.wire.command import Command, encode_command
from cometmq.wire.requests.consume import PullMessage
from cometmq.wire.requests.send import SendBatchMessage, SendMessageV2
from cometmq.wire.schema import Header

OPAQUE_FIRST: Final = 100_000_000
OPAQUE_LAST: Final = 999_999_999
OPAQUE_DIGITS: Final = 9
_OPAQUE_MARK: Final = b'"opaque":'
_COUNTER_MARK: Final = "0C0FFEE0"  # stands where a unique key's counter will
_GROUP: Final = "bench-group"
_BROKER: Final = "broker-a"


class Block:
    """Whole frames in one buffer, patched in place before each use."""

    def __init__(self, frames: list[bytes], messages: int) -> None:
        self.data = bytearray(b"".join(frames))
        self.requests = len(frames)
        self.messages = messages
        self._opaques = list(_places(self.data, _OPAQUE_MARK, len(_OPAQUE_MARK)))
        self._counters = list(_places(self.data, _COUNTER_MARK.encode(), 0))
        if len(self._opaques) != self.requests:
            raise ValueError(f"{self.requests} frames with {len(self._opaques)} opaques")

    def patch(self, opaque: int, counter: int) -> None:
        """Number the requests from `opaque` and the messages from `counter`."""
        data = self.data
        for number, at in enumerate(self._opaques, opaque):
            data[at : at + OPAQUE_DIGITS] = b"%d" % number
        for number, at in enumerate(self._counters, counter):
            data[at : at + 8] = b"%08X" % number

    @property
    def unique_keys(self) -> int:
        return len(self._counters)


class Load(Protocol):
    """Where a pump gets its requests from: the next block of a connection, numbered from `opaque`."""

    def next_block(self, connection: int, opaque: int) -> Block: ...


class Sends:
    """Blocks of messages; those of one block go round the queues."""

    def __init__(self, topic: str, connections: int, chunk: int, seed: int, *, with_keys: bool = False) -> None:
        self._blocks = [
            Block([_send(topic, place % QUEUES, seed, connection, with_keys) for place in range(chunk)], chunk)
            for connection in range(connections)
        ]
        self._counter = 0

    def next_block(self, connection: int, opaque: int) -> Block:
        block = self._blocks[connection]
        block.patch(opaque, self._counter)
        self._counter += block.unique_keys
        return block


class Batches:
    """One batch at a time, each connection going round the queues."""

    def __init__(self, topic: str, connections: int, seed: int) -> None:
        self._rings = [
            itertools.cycle([Block([_batch(topic, queue, seed, connection)], BATCH_COUNT) for queue in range(QUEUES)])
            for connection in range(connections)
        ]
        self._counter = 0

    def next_block(self, connection: int, opaque: int) -> Block:
        block = next(self._rings[connection])
        block.patch(opaque, self._counter)
        self._counter += block.unique_keys
        return block


class Pulls:
    """One pull at a time, round and round in the newest messages of each queue."""

    def __init__(self, topic: str, connections: int, ranges: list[tuple[int, int]]) -> None:
        pulls = [
            Block([frame_of(_pull(topic, queue, offset))], PULL_COUNT)
            for offset_index in range(max((end - begin) // PULL_COUNT for begin, end in ranges))
            for queue, (begin, end) in enumerate(ranges)
            if (offset := begin + offset_index * PULL_COUNT) + PULL_COUNT <= end
        ]
        if not pulls:
            raise ValueError(f"no queue of {topic} holds {PULL_COUNT} messages: send some first")
        shift = len(pulls) // connections  # so that connections read in different places
        self._rings = [
            itertools.cycle(pulls[connection * shift :] + pulls[: connection * shift])
            for connection in range(connections)
        ]

    def next_block(self, connection: int, opaque: int) -> Block:
        block = next(self._rings[connection])
        block.patch(opaque, 0)
        return block


def _places(data: bytes | bytearray, mark: bytes, skip: int) -> Iterator[int]:
    at = data.find(mark)
    while at >= 0:
        yield at + skip
        at = data.find(mark, at + 1)


def frame_of(request: Header, body: bytes = b"", opaque: int = OPAQUE_FIRST) -> bytes:
    """A request as the Java client writes it."""
    return encode_command(
        Command(request.code, ext=request.write(), body=body, opaque=opaque, language=LanguageCode.JAVA)
    )


def _body(*seed: int) -> bytes:
    # Printable, as most payloads are; and free of the marks that are searched for.
    return bytes(random.Random(str(seed)).choices(b"abcdefghijklmnopqrstuvwxyz      ", k=BODY_SIZE))


def _unique_key(seed: int, connection: int) -> str:
    return f"7F000001{seed & 0xFFFFFFFF:08X}{connection:08X}{_COUNTER_MARK}"


def _properties(unique_key: str) -> str:
    return f"UNIQ_KEY\x01{unique_key}\x02WAIT\x01true\x02TAGS\x01TagA\x02"


def send_request(topic: str, queue: int, properties: str) -> SendMessageV2:
    """One message to one queue."""
    return SendMessageV2(
        producer_group=_GROUP, topic=topic, default_topic="TBW102", default_topic_queue_nums=QUEUES, queue_id=queue,
        sys_flag=0, born_timestamp=1_767_225_600_000, flag=0, properties=properties, reconsume_times=0,
        unit_mode=False, batch=False, broker_name=_BROKER,
    )  # fmt: skip


def _send(topic: str, queue: int, seed: int, connection: int, with_keys: bool) -> bytes:
    keys = f"KEYS\x01order-{_COUNTER_MARK}\x02" if with_keys else ""
    request = send_request(topic, queue, keys + _properties(_unique_key(seed, connection)))
    return frame_of(request, _body(seed, connection, queue))


def _batch(topic: str, queue: int, seed: int, connection: int) -> bytes:
    key = _unique_key(seed, connection)
    request = SendBatchMessage(
        producer_group=_GROUP, topic=topic, default_topic="TBW102", default_topic_queue_nums=QUEUES, queue_id=queue,
        sys_flag=0, born_timestamp=1_767_225_600_000, flag=0, properties=f"UNIQ_KEY\x01{key}\x02WAIT\x01true\x02",
        reconsume_times=0, unit_mode=False, batch=True, broker_name=_BROKER,
    )  # fmt: skip
    inner = _properties(key).encode()
    return frame_of(request, encode_batch((0, _body(seed, connection, queue, n), inner) for n in range(BATCH_COUNT)))


def _pull(topic: str, queue: int, offset: int) -> PullMessage:
    return PullMessage(
        consumer_group=_GROUP, topic=topic, queue_id=queue, queue_offset=offset, max_msg_nums=PULL_COUNT,
        sys_flag=int(PullFlag.SUSPEND | PullFlag.SUBSCRIPTION), commit_offset=0, suspend_timeout_millis=15_000,
        sub_version=0, subscription="*", expression_type="TAG", max_msg_bytes=256 * 1024,
    )  # fmt: skip
