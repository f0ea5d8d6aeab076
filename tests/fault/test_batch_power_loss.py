"""Queues of batches after a power cut: what was acknowledged is there, at its offsets, also where units were torn."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from tests.unit.store.batch_kit import TOPIC, open_batches, pull_all, put_batch
from tests.unit.store.kit import HandClock, send

from .test_store_power_loss import RecordingFs

Batch = tuple[int, int, bytes]


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0], ids=["unsynced all lost", "half lost", "all kept"])
@pytest.mark.parametrize("seed", range(3))
def test_acknowledged_batches_survive_a_power_cut(tmp_path: Path, seed: int, keep: float) -> None:
    chance = random.Random(seed)
    origin = tmp_path / "origin"
    fs, clock = RecordingFs(origin), HandClock()
    # Files wider than a sector, so that units are torn; 46 bytes never end where a sector does.
    store = open_batches(origin, clock, fs, mapper_file_size_batch_consume_queue=46 * 40)
    sent: list[Batch] = []
    acknowledged: list[tuple[int, int]] = []  # from this step on so many are promised
    for number in range(70):
        clock.ms += chance.randrange(5)
        body, count = bytes([number + 1]) * chance.randrange(1, 300), chance.randrange(1, 9)
        if chance.random() < 0.2:
            placed, count = send(store, body, TOPIC, tags="t"), 1
        else:
            placed = put_batch(store, count, body, TAGS="t")
        sent.append((placed.queue_offset, count, body))
        if chance.random() < 0.5:
            store.write()
            if chance.random() < 0.8:
                store.flush_log()
                acknowledged.append((len(fs.record), len(sent)))
                store.dispatch()
        if chance.random() < 0.2:
            store.maintain(thorough=chance.random() < 0.3)
    store.abandon()

    for moment in range(chance.randrange(7), len(fs.record) + 1, 7):
        promised = max([count for since, count in acknowledged if since <= moment], default=0)
        left = tmp_path / "left"
        fs.disk_at(moment, chance, keep, left)
        again = open_batches(left, clock, mapper_file_size_batch_consume_queue=46 * 40)
        where = f"seed {seed}, keep {keep}, moment {moment}: {fs.record[moment - 1][:3]}"
        found = [
            (record.queue_offset, int(record.properties.get("INNER_NUM", 1)), record.body) for record in pull_all(again)
        ]
        assert len(found) >= promised, where
        assert found == sent[: len(found)], where
        end = sum(count for _, count, _ in found)
        assert put_batch(again, 2).queue_offset == end, where
        again.close()
        shutil.rmtree(left)
