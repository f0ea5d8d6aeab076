"""A store that was killed, to be damaged and opened thousands of times: its bytes, and what it must still serve."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.unit.store.kit import HandClock, QuickFs, open_small, send, settle

from cometmq.broker.loading import read_patiently
from cometmq.errors import CorruptRecord, StoreError
from cometmq.store.append import Appended
from cometmq.store.engine import Store
from cometmq.store.reader import ReadStatus
from cometmq.store.tables import TableFile
from cometmq.wire.record import Record, decode_records

TOPIC: Final = "T"
QUEUES: Final = 2
TABLE: Final = "config/table.json"


@dataclass
class Stored:
    """One message and where it stands."""

    place: Appended
    queue_id: int
    body: bytes
    key: str


@dataclass
class Victim:
    """A store's files, and the messages in them."""

    files: dict[str, bytes]
    messages: list[Stored]
    config: dict[str, Any] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)  # of the queues

    def lay_out(self, root: Path, **changed: bytes | None) -> None:
        """Write the files into `root`; `changed` has other contents by name, None for a file that is gone."""
        shutil.rmtree(root, ignore_errors=True)
        for name, content in {**self.files, **changed}.items():
            if content is not None:
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)

    def open(self, root: Path) -> Store:
        clock = HandClock()
        clock.ms += 1_000_000
        return open_small(root, QuickFs(), clock, **self.config)

    def judge(self, store: Store, *, but: int = -1) -> list[str]:
        """What is wrong with the messages that are served, but for the one numbered `but`."""
        faults: list[str] = []
        for number, one in enumerate(self.messages):
            if number == but:
                continue
            found = read_one(store, one.queue_id, one.place.queue_offset)
            if found is None or found.body != one.body or found.physical_offset != one.place.physical_offset:
                faults.append(f"I1: message {number} at queue {one.queue_id} offset {one.place.queue_offset}: {found}")
        return faults

    def judge_in_order(self, store: Store) -> list[str]:
        """As `judge`, but read as a consumer reads that goes from message to message, many at a time."""
        faults: list[str] = []
        for queue_id in range(QUEUES):
            wanted = [(one.place.physical_offset, one.body) for one in self.messages if one.queue_id == queue_id]
            found = [(record.physical_offset, record.body) for record in read_first(store, queue_id, len(wanted))]
            if found != wanted:
                faults.append(f"I1: queue {queue_id}: {len(found)} of {len(wanted)} are there, or are other ones")
        return faults


def kill_a_store(
    root: Path, count: int, *, unsynced: int = 0, clean: bool = False, larger: int = 1, **config: Any
) -> Victim:
    """Make a store of so many messages; the checkpoint knows of all but the last `unsynced`."""
    clock = HandClock()
    store = open_small(root, QuickFs(), clock, **config)
    table = TableFile(QuickFs(), str(root / TABLE))
    table.load()
    messages: list[Stored] = []
    for number in range(count):
        clock.ms += 10
        if number == count - unsynced:
            settle(store)
            store.maintain(thorough=True)
        body, key, queue_id = b"m%d" % number * (5 + number % 7) * larger, f"k{number}", number % QUEUES
        messages.append(Stored(send(store, body, TOPIC, queue_id, keys=key), queue_id, body, key))
        if number % 3 == 0:
            settle(store)
    settle(store)
    if not unsynced:
        clock.ms += 10
        store.maintain(thorough=True)
    for number in (1, 2):
        table.save({"number": number})
    store.close() if clean else store.abandon()
    files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
    ends = [sum(1 for one in messages if one.queue_id == queue_id) for queue_id in range(QUEUES)]
    return Victim(files, messages, config, ends)


def read_one(store: Store, queue_id: int, offset: int) -> Record | None:
    """The message at an offset, as a consumer that checks what it gets; None if there is none, or it is spoilt."""
    records = _read(store, queue_id, offset, 1)
    return records[0] if records and records[0].queue_offset == offset else None


def read_first(store: Store, queue_id: int, count: int) -> list[Record]:
    """The first messages of a queue, up to one that is spoilt."""
    found: list[Record] = []
    while len(found) < count and (more := _read(store, queue_id, len(found), min(count - len(found), 32))):
        found += more
    return found


def _read(store: Store, queue_id: int, offset: int, count: int) -> list[Record]:
    result = store.read(TOPIC, queue_id, offset, count)
    if result.status is not ReadStatus.FOUND or not result.ranges:
        return []
    try:
        if result.cold:
            _, pieces = read_patiently(store, TOPIC, queue_id, offset, count)
            return list(decode_records(b"".join(pieces), check_crc=True))
        return list(decode_records(b"".join(store.slices(result.ranges)), check_crc=True))
    except (CorruptRecord, StoreError, ValueError):
        return []
