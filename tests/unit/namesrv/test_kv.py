"""Key-value settings: what is answered is on the disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from cometmq.errors import ConfigError, RequestRefused
from cometmq.namesrv import kv as module
from cometmq.namesrv.kv import KvTable


def opened(path: Path) -> KvTable:
    table = KvTable(str(path))
    table.load()
    return table


def test_values_outlive_the_process_in_javas_file(tmp_path: Path) -> None:
    path = tmp_path / "namesrv" / "kvConfig.json"
    table = opened(path)
    table.put("ORDER_TOPIC_CONFIG", "T", "a:4")
    table.put("N", "k", "é")
    table.delete("N", "k")
    assert path.read_bytes() == b'{"configTable":{"ORDER_TOPIC_CONFIG":{"T":"a:4"},"N":{}}}'
    assert path.with_name("kvConfig.json.bak").exists()
    again = opened(path)
    assert again.get("ORDER_TOPIC_CONFIG", "T") == "a:4"
    assert again.namespace("N") == {}
    assert again.namespace("never") is None


def test_what_is_not_there_is_none_and_may_be_deleted(tmp_path: Path) -> None:
    table = opened(tmp_path / "kv.json")
    assert table.get("N", "k") is None
    table.delete("N", "k")
    table.put("N", "k", None)
    assert table.get("N", "k") is None and table.namespace("N") == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"configTable":[1]}', '{"configTable":{"N":5}}'])
def test_a_broken_file_stops_the_start_and_names_the_copy(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kv.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"kv\.json\.bak"):
        opened(path)


def test_an_empty_file_is_an_empty_table(tmp_path: Path) -> None:
    path = tmp_path / "kv.json"
    path.touch()
    assert opened(path).namespace("N") is None


def test_a_value_that_cannot_be_written_is_not_taken(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    table = opened(tmp_path / "kv.json")
    table._path = str(blocked / "kv.json")
    with pytest.raises(ConfigError, match="cannot write"):
        table.put("N", "k", "v")
    assert table.get("N", "k") is None


def test_the_number_of_entries_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENTRIES_MAX", 1)
    table = opened(tmp_path / "kv.json")
    table.put("N", "k", "v")
    table.put("N", "k", "w")
    with pytest.raises(RequestRefused, match="most allowed"):
        table.put("N", "l", "v")
