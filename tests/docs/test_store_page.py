"""The commands of the page about the store, on a store."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tests.docs.test_docs import ROOT, commands
from tests.unit.store.kit import open_small, send, settle

from cometmq.cli import main

LINES = commands(ROOT / "docs" / "operate" / "store.md")


@pytest.mark.parametrize("line", LINES)
def test_a_command(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broker.conf").write_text("maxHashSlotNum=16\nmaxIndexNum=64\n")
    store = open_small(tmp_path / "DIR")
    send(store, b"1 EUR", "Orders", keys="4711")
    settle(store)
    store.close()
    config = Path("DIR/config")
    config.mkdir(exist_ok=True)
    (config / "topics.json").write_text('{"topicConfigTable": {}}')
    assert main(shlex.split(line)[1:]) == 0
