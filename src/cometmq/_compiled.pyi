"""What the extension offers; the pure twins have the same faces."""

from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import Any

from cometmq.broker.send_lane import Learned
from cometmq.broker.sent_properties import Shape
from cometmq.columns.walk import Buffers, Unpack
from cometmq.net.channel import Channel
from cometmq.store.append import BatchItem
from cometmq.store.append import Entry as Message
from cometmq.store.commit_log import CommitLog, Range
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.dispatch import Put
from cometmq.store.index_file import Entry
from cometmq.store.log_walk import FoundTuple
from cometmq.store.replay import Mend, Patient
from cometmq.wire.record import Buffer

class Walk:
    rows: int
    size: int

    def __init__(
        self,
        columns: Sequence[str],
        unpack: Unpack,
        host_text: Callable[[bytes], str],
        parse: Callable[[str], dict[str, str]],
        crc32: Callable[[Any], int],
        topics: Container[bytes] | None,
        from_ms: int,
        until_ms: int,
        check_crc: bool,
    ) -> None: ...
    def add(
        self,
        data: Buffer,
        at: int = 0,
        stop: int = -1,
        base: int = -1,
        start_offset: int = ...,
        end_offset: int = ...,
    ) -> tuple[int, int, int]: ...
    def take(self) -> tuple[int, dict[str, Buffers]]: ...

def framed(
    head: bytes, view: memoryview, start: int, units: bytes, end: int, size_max: int, queue_id: int, queue_offset: int
) -> bytes | None: ...
def sound_ranges(
    view: memoryview, start: int, ranges: list[Range], offsets: Sequence[int], number: int, end: int, queue_id: int
) -> int: ...
def entries_of(messages: list[Message], separator: str, tag_prefix: str) -> list[Entry]: ...
def packed_entries(
    entries: list[Entry], slots: memoryview, slot_count: int, entry: int, begin_ms: int, dirty: set[int]
) -> tuple[bytes, int]: ...
def batch_records(
    items: Sequence[BatchItem],
    head: bytes,
    topic_part: bytes,
    at: int,
    queue_offset: int,
    queue: ConsumeQueue,
    store_time_ms: int,
    sys_flag: int,
    crc32: Callable[[Any], int],
    tags_code: Callable[[str | None], int],
    remember: Callable[[Message], None],
) -> tuple[bytes, list[int]]: ...
def found_records(
    view: memoryview, start: int, at: int, count: int, crc32: Callable[[Any], int] | None
) -> tuple[list[FoundTuple], int, bool]: ...
def replayed_entries(
    found: list[FoundTuple],
    start: int,
    queues: dict[tuple[bytes, int], ConsumeQueue],
    indexed_before: int,
    last_ms: int,
    newest_ms: int,
    patient: Patient,
    mend: Mend,
) -> tuple[list[Message], int]: ...

class SendLane:
    def __init__(
        self,
        log: CommitLog,
        queues: dict[tuple[str, int], ConsumeQueue],
        undispatched: deque[Message],
        shapes: dict[str, Shape],
        read: Callable[[str], tuple[str, str | None, Shape] | None],
        own: bytes,
        id_prefix: bytes,
        literals: tuple[bytes, ...],
        body_max: int,
        routes_max: int,
        room: Callable[[], tuple[int, int]],
        learn: Callable[[Channel, bytes], Learned],
        answer: Callable[[Channel, bytes, int, int], None],
        now_ms: Callable[[], int],
        crc32: Callable[[Any], int],
        tags_code: Callable[[str | None], int],
    ) -> None: ...
    def __call__(self, channel: Channel, view: memoryview, at: int) -> int: ...
    def forget(self) -> None: ...

def body_crc(body: bytes, crc32: Callable[[Any], int]) -> int: ...
def new_units(entries: list[Message], put: Put) -> tuple[int, dict[ConsumeQueue, None]]: ...
def put_units(entries: list[Message], put: Put) -> int: ...
