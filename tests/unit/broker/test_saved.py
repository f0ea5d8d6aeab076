"""A change is saved by someone, whatever happens to those who were about to."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tests.unit.broker.state_kit import MemoryTable, StillClock, file_table

from cometmq.broker.config import BrokerConfig
from cometmq.broker.offsets import Offsets
from cometmq.errors import StoreError


def offsets_of(table: MemoryTable) -> Offsets:
    return Offsets(table, BrokerConfig(), StillClock())


async def test_a_save_that_never_got_its_turn_is_made_up_for_at_the_close() -> None:
    table = MemoryTable()
    offsets = offsets_of(table)
    offsets.commit("g", "t", 0, 7)
    busy = Event()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(busy.wait, 10)
        saving = asyncio.create_task(offsets.persist_aside(thread))
        await asyncio.sleep(0)
        saving.cancel()
        await asyncio.gather(saving, return_exceptions=True)
        busy.set()
    assert offsets.persist()
    assert offsets_of(table).query("g", "t", 0) == 7


async def test_who_must_not_answer_before_the_save_does_not_trust_one_that_waits() -> None:
    table = MemoryTable()
    offsets = offsets_of(table)
    offsets.commit("g", "t", 0, 7)
    busy = Event()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(busy.wait, 10)
        saving = asyncio.create_task(offsets.persist_aside(thread))
        await asyncio.sleep(0)
        offsets.persist()
        assert table.saves == 1
        busy.set()
        await saving
    assert table.saves == 1
    assert not offsets.persist()


def test_a_save_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    table = MemoryTable()
    offsets = offsets_of(table)
    offsets.commit("g", "t", 0, 7)

    def full(_table: MemoryTable, _content: dict[str, Any]) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryTable, "save", full)
        with pytest.raises(OSError, match="No space"):
            offsets.persist()
    assert offsets.persist()


WRONG = '{"offsetTable": {"t@g": 5}}'
RIGHT = '{"offsetTable": {"t@g": {0: 7}}}'


def test_a_copy_that_is_not_the_table_gives_way_to_the_one_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "consumerOffset.json"
    path.write_text(WRONG)
    (tmp_path / "consumerOffset.json.bak").write_text(RIGHT)
    offsets = Offsets(file_table(path), BrokerConfig(), StillClock())
    assert offsets.query("g", "t", 0) == 7
    assert "not the table it should be" in caplog.text and "consumerOffset.json.bak, is used" in caplog.text
    offsets.commit("g", "t", 0, 8)
    offsets.persist()
    assert (tmp_path / "consumerOffset.json.bak").read_text() == RIGHT  # the wrong one did not become the copy before


@pytest.mark.parametrize("backup", [None, WRONG, "{", "[]"])
def test_no_sound_copy_refuses_to_start_and_says_which(tmp_path: Path, backup: str | None) -> None:
    path = tmp_path / "consumerOffset.json"
    path.write_text(WRONG)
    if backup is not None:
        (tmp_path / "consumerOffset.json.bak").write_text(backup)
    with pytest.raises(StoreError, match=r"consumerOffset\.json .*move both away"):
        Offsets(file_table(path), BrokerConfig(), StillClock())
