"""Index files and checkpoint against those that Apache RocketMQ 5.5.0 wrote (recorded by `record_store.py`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cometmq.store.checkpoint import Checkpoint
from cometmq.store.config import StoreConfig
from cometmq.store.fs import OsFs
from cometmq.store.index import IndexService, index_keys

STORE = Path(__file__).with_name("store")
INDEX_CASES = json.loads((STORE / "index.json").read_bytes())["cases"]
CHECKPOINT = json.loads((STORE / "checkpoint.json").read_bytes())["cases"][0]
ROLLBACK = 12

by_case = pytest.mark.parametrize("case", INDEX_CASES, ids=lambda case: case["name"])


def service(folder: Path, case: dict[str, Any]) -> IndexService:
    config = StoreConfig(max_hash_slot_num=case["slots"], max_index_num=case["entries"])
    made = IndexService(OsFs(), str(folder), config)
    made.load(True, 0)
    return made


def put_all(index: IndexService, case: dict[str, Any]) -> None:
    for m in case["messages"]:
        if m["sys_flag"] != ROLLBACK:
            index.put(m["topic"], index_keys(m["uniq_key"], m["keys"], m["tags"]), m["offset"], m["time_ms"])


def answers(index: IndexService, case: dict[str, Any]) -> list[list[int]]:
    return [
        index.query(q["topic"], q["key"], q["max_count"], q["begin_ms"], q["end_ms"], q["type"])
        for q in case["queries"]
    ]


def holds_entries(data: str) -> bool:
    """Java makes a file before it knows that there is anything to put in it; we do not."""
    return int(data[72:80], 16) > 1


@by_case
def test_the_same_puts_give_the_same_bytes(tmp_path: Path, case: dict[str, Any]) -> None:
    index = service(tmp_path, case)
    put_all(index, case)
    index.flush()
    index.close()
    ours = [path.read_bytes().hex() for path in sorted(tmp_path.iterdir())]
    assert ours == [data for data in case["files"] if holds_entries(data)]


@by_case
@pytest.mark.parametrize("flushed", [False, True])
def test_the_same_queries_give_the_same_answers(tmp_path: Path, case: dict[str, Any], flushed: bool) -> None:
    index = service(tmp_path, case)
    put_all(index, case)
    if flushed:
        index.flush()
    assert answers(index, case) == [q["offsets"] for q in case["queries"]]
    index.close()


@by_case
@pytest.mark.parametrize("clean_exit", [False, True])
def test_files_of_the_original_are_read(tmp_path: Path, case: dict[str, Any], clean_exit: bool) -> None:
    for number, data in enumerate(case["files"]):
        (tmp_path / f"{20250101000000000 + number}").write_bytes(bytes.fromhex(data))
    index = service(tmp_path, case)
    index.close()
    index.load(clean_exit, 0)
    assert answers(index, case) == [q["offsets"] for q in case["queries"]]
    index.close()
    kept = [path.read_bytes().hex() for path in sorted(tmp_path.iterdir())]
    assert kept == [data for data in case["files"] if holds_entries(data)]


def test_the_checkpoint_is_the_same_page(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    checkpoint = Checkpoint(OsFs(), str(path))
    checkpoint.load()
    for name in vars(checkpoint).keys() & CHECKPOINT.keys():
        setattr(checkpoint, name, CHECKPOINT[name])
    checkpoint.close()
    assert path.stat().st_size == CHECKPOINT["size"]
    assert path.read_bytes()[:64].hex() == CHECKPOINT["head"]
    again = Checkpoint(OsFs(), str(path))
    again.load()
    again.close()
    assert {name: getattr(again, name) for name in CHECKPOINT.keys() - {"size", "head"}} == {
        name: value for name, value in CHECKPOINT.items() if name not in ("size", "head")
    }
