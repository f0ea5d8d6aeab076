"""Small stores with a topic of batches, `B`; every other topic is plain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cometmq.store.append import Appended
from cometmq.store.batch_queue import BATCH_UNIT, BATCH_UNIT_SIZE
from cometmq.store.engine import Store
from cometmq.store.fs import FileSystem
from cometmq.store.reader import ReadStatus
from cometmq.wire.record import Record, decode_records

from .kit import FILE_UNITS, HOST, HandClock, QuickFs, small_config

TOPIC = "B"
INNER_BATCH = 0x80


def open_batches(root: Path, clock: HandClock | None = None, fs: FileSystem | None = None, **changes: Any) -> Store:
    sizes = {"mapper_file_size_batch_consume_queue": FILE_UNITS * BATCH_UNIT_SIZE, **changes}
    config = small_config(root, **sizes)
    return Store.open(
        config,
        store_host=HOST,
        fs=fs or QuickFs(),
        clock=clock or HandClock(),
        is_batch_topic=lambda topic: topic.startswith(TOPIC),
    )


def put_batch(
    store: Store, count: int, body: bytes = b"b", queue_id: int = 0, topic: str = TOPIC, **found: str
) -> Appended:
    given = {"UNIQ_KEY": "U", "INNER_NUM": str(count), **found}
    return store.append_inner_batch(topic, queue_id, body, given, count, INNER_BATCH, born_host=HOST)


def pull_all(store: Store, queue_id: int = 0, max_count: int = 32, topic: str = TOPIC) -> list[Record]:
    """All records of a queue of batches, pulled as a consumer would."""
    found: list[Record] = []
    offset = store.min_offset(topic, queue_id)
    while True:
        result = store.read(topic, queue_id, offset, max_count)
        if result.status is not ReadStatus.FOUND:
            return found
        found += decode_records(b"".join(store.slices(result.ranges)), check_crc=True)
        assert result.next_offset > offset
        offset = result.next_offset


def units_on_disk(root: Path, queue_id: int = 0, topic: str = TOPIC) -> list[tuple[int, ...]]:
    folder = root / "batchconsumequeue" / topic / str(queue_id)
    data = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
    return [unit for unit in BATCH_UNIT.iter_unpack(data) if unit[1]]
