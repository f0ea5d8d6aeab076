"""Small stores for tests: tiny segments, a clock that tests own, short ways to send and read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cometmq.store.append import Appended
from cometmq.store.config import StoreConfig
from cometmq.store.engine import Store
from cometmq.store.fs import FileSystem, OsFs
from cometmq.store.reader import ReadStatus
from cometmq.wire.record import Record, decode_records, pack_host

HOST = pack_host("127.0.0.1", 10911)
SEGMENT_SIZE = 4096
FILE_UNITS = 10
START_MS = 1_700_000_000_000


class QuickFs(OsFs):
    """The real file system without its slow promises: what is not synced survives everything but a power cut."""

    def sync(self, fd: int) -> None:
        pass

    def fsync_dir(self, path: str) -> None:
        pass


class HandClock:
    """Stands still until moved."""

    def __init__(self) -> None:
        self.ms = START_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms


def small_config(root: Path, **changes: Any) -> StoreConfig:
    settings: dict[str, Any] = {
        "store_path_root_dir": str(root),
        "mapped_file_size_commit_log": SEGMENT_SIZE,
        "mapped_file_size_consume_queue": FILE_UNITS * 20,
        "max_hash_slot_num": 16,
        "max_index_num": 64,
    }
    return StoreConfig(**{**settings, **changes})


def open_small(root: Path, fs: FileSystem | None = None, clock: HandClock | None = None, **changes: Any) -> Store:
    return Store.open(small_config(root, **changes), store_host=HOST, fs=fs or QuickFs(), clock=clock or HandClock())


def send(store: Store, body: bytes, topic: str = "T", queue_id: int = 0, **fields: Any) -> Appended:
    """Append one message; keys are also put into its properties."""
    data = fields.pop("properties_data", f"KEYS\x01{fields['keys']}\x02".encode() if "keys" in fields else b"")
    return store.append(topic, queue_id, body, data, born_host=HOST, **fields)


def settle(store: Store) -> None:
    """Write, flush and dispatch."""
    store.write()
    store.flush_log()
    store.dispatch()


def read_all(store: Store, topic: str = "T", queue_id: int = 0) -> list[Record]:
    """All messages of a queue, pulled as a consumer would."""
    found: list[Record] = []
    offset = store.min_offset(topic, queue_id)
    while True:
        result = store.read(topic, queue_id, offset, 32)
        if result.status is not ReadStatus.FOUND:
            return found
        found += decode_records(b"".join(store.slices(result.ranges)), check_crc=True)
        offset = result.next_offset


def bodies(store: Store, topic: str = "T", queue_id: int = 0) -> list[bytes]:
    return [record.body for record in read_all(store, topic, queue_id)]
