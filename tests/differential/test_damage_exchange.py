"""A damaged folder is recovered by one broker and opened by the other: both serve what the damage left.

The log is damaged in its middle and repaired with `cometmq store repair`; then its tail is torn, and queues, index,
checkpoint and the newest copy of a table are lost. The other broker must recover that, and what it recovered must be
good for the first again.
"""

from __future__ import annotations

import shutil
import struct
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.original import CometNamesrv

from cometmq.cli import main
from cometmq.model.properties import DAMAGED_MARK
from cometmq.store.inspection.placeholders import SENTENCE
from cometmq.wire.record import PHYSICAL_OFFSET_AT, Record, decode_record

from .exchange import (
    AWAIT_S,
    SMALL_FILES,
    Served,
    await_offsets_on_disk,
    broker_of,
    fill,
    messages_of,
    served,
)

pytestmark = pytest.mark.timeout(300)

COUNT = 60
HIT_QUEUE, HIT_OFFSET = 1, 7
SEGMENT_SIZE = int(str(SMALL_FILES["mappedFileSizeCommitLog"]))
SOON = {"flushConsumeQueueThoroughInterval": 200, "flushIntervalConsumeQueue": 100}  # the checkpoint follows


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    with CometNamesrv(tmp_path_factory.mktemp("namesrv")) as running:
        yield [running.addr]


def test_what_one_recovered_the_other_opens(
    tmp_path: Path, namesrv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    store, config = tmp_path / "store", tmp_path / "broker.conf"
    config.write_text("".join(f"{key}={value}\n" for key, value in SMALL_FILES.items()))

    def look(*words: str) -> tuple[int, str]:
        code = main(["store", words[0], str(store), "-c", str(config), *words[1:]])
        return code, capsys.readouterr().out

    before: Served | None = None
    hit: Record | None = None
    for turn, kind in enumerate(("comet", "java", "comet", "java")):
        count = min(turn + 1, 2) * COUNT
        with broker_of(kind, tmp_path, store, namesrv, **SOON) as broker:
            if before is not None and hit is not None:
                found = served(broker, messages_of(min(turn, 2) * COUNT))
                if turn < 3:
                    assert_equal_but_for_the_hit(before, found, hit)
                else:
                    assert found == before
                before = found
            if turn < 2:
                fill(broker, turn * COUNT, COUNT)
                before = served(broker, messages_of(count))
                await_synced(store, newest(before).store_time_ms)
            assert before is not None
            await_offsets_on_disk(store, before.committed)
            broker.kill()
        if turn < 2:
            assert look("check")[0] == 0
            later = map(decode_record, before.records[HIT_QUEUE][HIT_OFFSET + turn * COUNT // 3 :])
            hit = next(record for record in later if "KEYS" in record.properties)
            spoil(store, hit)
            code, out = look("check")
            assert code == 1 and f"damaged at byte {hit.physical_offset % SEGMENT_SIZE}" in out
            code, out = look("repair", "--apply")
            assert code == 0, out
            lose_and_tear(store, newest(before))
    assert look("check")[0] == 0


def newest(found: Served) -> Record:
    return max((decode_record(records[-1]) for records in found.records.values()), key=lambda one: one.physical_offset)


def await_synced(store: Path, store_time_ms: int) -> None:
    """Wait until the checkpoint says that the message is on the disk."""
    deadline = time.monotonic() + AWAIT_S
    while True:
        data = (store / "checkpoint").read_bytes()
        if len(data) >= 8 and struct.unpack(">q", data[:8])[0] >= store_time_ms:
            return
        assert time.monotonic() < deadline, "the checkpoint was not moved"
        time.sleep(0.05)


def segment_of(store: Path, offset: int) -> Path:
    return store / "commitlog" / f"{offset - offset % SEGMENT_SIZE:020d}"


def patch(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def spoil(store: Path, hit: Record) -> None:
    patch(segment_of(store, hit.physical_offset), hit.physical_offset % SEGMENT_SIZE + 88, b"\xff\xff")


def lose_and_tear(store: Path, last: Record) -> None:
    """What both must survive: half a message at the end, and no queues, no index, no checkpoint, a broken table."""
    for name in ("consumequeue", "batchconsumequeue", "index"):
        shutil.rmtree(store / name, ignore_errors=True)
    (store / "checkpoint").unlink()
    topics = store / "config" / "topics.json"
    if topics.exists():  # the original removes a broken one, and may not have saved another since
        shutil.copy(topics, topics.with_name("topics.json.bak"))
    topics.write_text("nothing {")
    end = end_of_log(store, last)
    path = segment_of(store, last.physical_offset)
    with path.open("rb") as file:
        file.seek(last.physical_offset % SEGMENT_SIZE)
        torn = bytearray(file.read(last.size))
    torn[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8] = struct.pack(">q", end)
    patch(segment_of(store, end), end % SEGMENT_SIZE, bytes(torn[: last.size // 2]))


def end_of_log(store: Path, last: Record) -> int:
    """Behind the last record; other topics may have written after ours."""
    data = segment_of(store, last.physical_offset).read_bytes()
    at = last.physical_offset % SEGMENT_SIZE
    while any(data[at : at + 4]):
        at += decode_record(data, at).size
    return last.physical_offset - last.physical_offset % SEGMENT_SIZE + at


def assert_equal_but_for_the_hit(before: Served, after: Served, hit: Record) -> None:
    """All is served as before, but where the hit message was, its placeholder is found: by offset and by key."""
    was, placeholder = (one.records[HIT_QUEUE][hit.queue_offset] for one in (before, after))
    assert with_another(before, was, placeholder) == after
    record = decode_record(placeholder, check_crc=True)
    assert (record.topic, record.queue_id, record.queue_offset) == (hit.topic, hit.queue_id, hit.queue_offset)
    assert record.body.rstrip() == SENTENCE[: len(record.body)].rstrip()
    assert record.properties["KEYS"] == hit.properties["KEYS"] and DAMAGED_MARK in record.properties


def with_another(found: Served, old: bytes, new: bytes) -> Served:
    def exchanged(records: list[bytes]) -> list[bytes]:
        return [new if one == old else one for one in records]

    return replace(
        found,
        records={queue: exchanged(records) for queue, records in found.records.items()},
        by_key={key: sorted(exchanged(records)) for key, records in found.by_key.items()},
    )
