"""Index files that are cut off or gone: the next start indexes what they had, as far as the newest ten log files go."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.store.kit import SEGMENT_SIZE, HandClock, open_small, send, settle

from cometmq.cli import main
from cometmq.store.index_holes import INDEX_SEGMENTS_MAX

COUNT = 60
SETTINGS = "maxHashSlotNum=16\nmaxIndexNum=16\nmappedFileSizeConsumeQueue=200\n"
FILES = 4  # of fifteen keys


def make_store(root: Path, *, clean: bool = True, body: bytes = b"x" * 200) -> list[int]:
    clock = HandClock()
    store = open_small(root, clock=clock, max_index_num=16)
    places = []
    for number in range(COUNT):
        clock.ms += 10
        send(store, b"no key")
        places.append(send(store, body, keys=f"k{number}").physical_offset)
        settle(store)
    store.maintain(thorough=True)
    store.close() if clean else store.abandon()
    (root / "broker.conf").write_text(SETTINGS)
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text('{"topicConfigTable":{}}')
    assert len(list((root / "index").iterdir())) == FILES
    return places


def found(root: Path) -> list[int]:
    """Which keys are found after a start; each message once."""
    store = open_small(root, max_index_num=16)
    places = [[offset for offset, _ in store.query("T", f"k{number}", 8, 0, 1 << 60)] for number in range(COUNT)]
    assert all(len(one) <= 1 for one in places)
    send(store, b"new", keys="new")
    settle(store)
    assert store.query("T", "new", 8, 0, 1 << 60)
    store.abandon()
    return [number for number, one in enumerate(places) if one]


def check(root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["store", "check", str(root), "-c", str(root / "broker.conf")]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("number", range(FILES))
@pytest.mark.parametrize("length", [None, 1, 200])
def test_what_a_file_had_is_indexed_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int, length: int | None, clean: bool
) -> None:
    make_store(tmp_path, clean=clean)
    assert "note: messages" not in check(tmp_path, capsys)
    path = sorted((tmp_path / "index").iterdir())[number]
    if length is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:length])
    out = check(tmp_path, capsys)
    assert (f"{path} is not looked at" in out) == (length is not None)
    if number == 0:
        assert "note: it begins later than the newest 10 files of the log" in out
    elif number < FILES - 1 or clean:
        assert "are in no file: the next start indexes them" in out
    if number == 0 and length is None:
        return  # nothing tells it from an index that was begun later
    assert found(tmp_path) == list(range(COUNT))
    assert found(tmp_path) == list(range(COUNT))


def test_an_index_of_one_file_that_is_cut_off_is_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make_store(tmp_path)
    for number, path in enumerate(sorted((tmp_path / "index").iterdir())):
        if number:
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:100])
    assert found(tmp_path) == list(range(COUNT))
    assert "is left alone: it has 100 bytes, but maxHashSlotNum" in caplog.text


def test_it_is_made_again_for_the_newest_ten_files(tmp_path: Path) -> None:
    """What an older file had, nobody can say without reading all of the log; it does not cost what others have."""
    places = make_store(tmp_path, body=b"x" * 1500)
    begin = sorted(int(path.name) for path in (tmp_path / "commitlog").iterdir())[-INDEX_SEGMENTS_MAX]
    assert places[-1] // SEGMENT_SIZE > 2 * INDEX_SEGMENTS_MAX
    paths = sorted((tmp_path / "index").iterdir())
    paths[1].unlink()
    assert found(tmp_path) == [number for number in range(COUNT) if not 15 <= number < 30]
    paths[2].unlink()
    kept = [number for number in range(COUNT) if number < 15 or places[number] >= begin]
    assert 15 < len(kept) < COUNT - 15
    assert found(tmp_path) == kept


def test_messages_of_deleted_topics_are_no_hole(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They are not indexed by a replay."""
    store = open_small(tmp_path, max_index_num=16)
    for number in range(COUNT):
        send(store, b"x", topic="Gone" if number % 3 else "T", keys=f"k{number}")
        settle(store)
    store.delete_topic("Gone")
    store.maintain(thorough=True)
    store.close()
    for path in (tmp_path / "index").iterdir():
        path.unlink()
    (tmp_path / "index").rmdir()
    open_small(tmp_path, max_index_num=16).close()
    open_small(tmp_path, max_index_num=16).close()
    assert "a file is missing" not in caplog.text
