"""A topic deleted and made again: its queues begin again at 0, and the log holds the messages of both lives."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from tests.unit.store.kit import bodies, open_small, send, settle

from cometmq.cli import main

SETTINGS = "maxHashSlotNum=16\nmaxIndexNum=64\n"


def two_lives(root: Path, first: dict[int, int], second: dict[int, int]) -> None:
    """A stopped store; queue by queue how many messages T got before it was deleted, and after it was made again."""
    store = open_small(root / "store")
    for life, counts in (("old", first), ("new", second)):
        store.delete_topic("T")
        for queue_id, count in counts.items():
            for number in range(count):
                send(store, b"%s %d" % (life.encode(), number), queue_id=queue_id)
        settle(store)
    store.maintain(thorough=True)
    store.close()
    topic = {"topicName": "T", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
    config = root / "store" / "config"
    config.mkdir(exist_ok=True)
    (config / "topics.json").write_bytes(orjson.dumps({"topicConfigTable": {"T": topic}}))
    (root / "broker.conf").write_text(SETTINGS)


def run(root: Path, *arguments: str) -> int:
    return main(["store", arguments[0], str(root / "store"), "-c", str(root / "broker.conf"), *arguments[1:]])


@pytest.mark.parametrize(
    ("first", "second"),
    [({0: 20}, {0: 3}), ({0: 3}, {0: 20}), ({0: 20}, {0: 20}), ({0: 5, 1: 5}, {0: 3}), ({1: 5}, {0: 9, 1: 1})],
)
def test_only_the_last_life_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], first: dict[int, int], second: dict[int, int]
) -> None:
    two_lives(tmp_path, first, second)
    files = {path: path.read_bytes() for path in (tmp_path / "store" / "consumequeue").rglob("*") if path.is_file()}
    assert run(tmp_path, "check") == 0, capsys.readouterr().out
    assert run(tmp_path, "repair", "--apply") == 0
    assert "costs: None" not in capsys.readouterr().out
    assert {path: path.read_bytes() for path in files} == files
    store = open_small(tmp_path / "store")
    for queue_id in range(2):
        assert bodies(store, queue_id=queue_id) == [b"new %d" % number for number in range(second.get(queue_id, 0))]
    store.close()


def test_damage_of_the_last_life_is_named_and_mended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two_lives(tmp_path, {0: 20}, {0: 12})
    files = sorted((tmp_path / "store" / "consumequeue" / "T" / "0").iterdir())
    whole = [path.read_bytes() for path in files]
    files[0].write_bytes(whole[0][:63] + b"\x55" + whole[0][64:])
    files[1].unlink()
    assert run(tmp_path, "check") == 1
    out = capsys.readouterr().out
    assert "T/0 has 1 wrong units, the first is number 3" in out and "T/0 lacks the units of 2 messages" in out
    assert run(tmp_path, "repair", "--apply") == 0
    assert [path.read_bytes() for path in files] == whole
