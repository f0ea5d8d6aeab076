"""Files of a queue that are too short or missing: the queue is made again from the log, and loses nothing."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from tests.unit.store.kit import FILE_UNITS, HandClock, QuickFs, bodies, open_small, send, settle

from cometmq.cli import main
from cometmq.errors import StoreError
from cometmq.store.consume_queue import UNIT_SIZE

COUNT = 4 * FILE_UNITS - 5  # in queue 0; the few of queue 1 have a file, too
FILE_SIZE = FILE_UNITS * UNIT_SIZE
SETTINGS = f"maxHashSlotNum=16\nmaxIndexNum=64\nmappedFileSizeConsumeQueue={FILE_SIZE}\n"


def body_of(number: int) -> bytes:
    return b"%d " % number * 150


def make_store(root: Path, *, clean: bool = True, others: int = 3) -> None:
    clock = HandClock()
    store = open_small(root, clock=clock)
    for number in range(COUNT):
        clock.ms += 10_000
        send(store, body_of(number))
        if number < others:
            send(store, b"x", queue_id=1)
        settle(store)
    store.maintain(thorough=True)
    store.close() if clean else store.abandon()
    config = root / "config"
    config.mkdir(exist_ok=True)
    topic = {"topicName": "T", "readQueueNums": 2, "writeQueueNums": 2, "perm": 6}
    (config / "topics.json").write_bytes(orjson.dumps({"topicConfigTable": {"T": topic}}))
    (root / "broker.conf").write_text(SETTINGS)


def run(root: Path, what: str, *arguments: str) -> int:
    return main(["store", what, str(root), "-c", str(root / "broker.conf"), *arguments])


def queue_file(root: Path, number: int) -> Path:
    return root / "consumequeue" / "T" / "0" / f"{number * FILE_SIZE:020d}"


def damage(root: Path, number: int, length: int | None) -> None:
    """Cut a file of queue 0 to a length, or remove it."""
    path = queue_file(root, number)
    if length is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:length])


def assert_whole(root: Path) -> None:
    for _ in range(2):  # as it was made again, and after one more stop
        store = open_small(root)
        assert bodies(store) == [body_of(number) for number in range(COUNT)]
        assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (0, COUNT)
        store.close()
    assert [path.stat().st_size for path in sorted((root / "consumequeue" / "T" / "0").iterdir())] == [FILE_SIZE] * 4


# Which file, and how long it is then: None is not at all. The last file is never missing: nothing would tell.
DAMAGES = [(0, 1), (0, 99), (0, 199), (1, None), (1, 0), (1, 20), (2, None), (2, 199), (3, 50), (3, 199)]


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize(("number", "length"), DAMAGES)
def test_the_next_start_makes_it_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, number: int, length: int | None, clean: bool
) -> None:
    make_store(tmp_path, clean=clean)
    damage(tmp_path, number, length)
    store = open_small(tmp_path)
    assert (
        f"consumequeue/T/0: a file is missing or too short; units from number {number * FILE_UNITS} on" in caplog.text
    )
    send(store, b"new")
    settle(store)
    assert bodies(store) == [*(body_of(number) for number in range(COUNT)), b"new"]
    store.close()


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize(("number", "length"), DAMAGES)
def test_check_tells_it_and_repair_mends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int, length: int | None, clean: bool
) -> None:
    make_store(tmp_path, clean=clean)
    damage(tmp_path, number, length)
    assert run(tmp_path, "check") == 1
    out = capsys.readouterr().out
    assert "T/0 lacks the units of" in out or f"{queue_file(tmp_path, number)} has {length} bytes" in out, out
    assert run(tmp_path, "repair", "--apply") == 0
    assert run(tmp_path, "check") == 0
    assert_whole(tmp_path)


def test_a_kill_while_it_is_made_again_changes_nothing(tmp_path: Path) -> None:
    """The files behind the hole are gone, and those that replay makes are not there yet."""

    class Dying(QuickFs):
        def truncate(self, fd: int, size: int) -> None:
            if "/T/0/" in str(Path(f"/proc/self/fd/{fd}").readlink()):
                raise SystemExit  # as its first file is made
            super().truncate(fd, size)

    for number in (0, 2):
        root = tmp_path / str(number)
        make_store(root)
        damage(root, number, 50)
        with pytest.raises(SystemExit):
            open_small(root, fs=Dying()).close()
        assert not queue_file(root, 3).exists()
        assert_whole(root)


@pytest.mark.parametrize("gone", [0, 1, 2, 3])
def test_what_the_log_still_has_is_made_again(tmp_path: Path, gone: int) -> None:
    """The log begins before the hole, in it, or behind it."""
    make_store(tmp_path)
    for path in sorted((tmp_path / "commitlog").iterdir())[:gone]:
        path.unlink()
    damage(tmp_path, 1, None)
    damage(tmp_path, 2, 7)
    store = open_small(tmp_path)
    found = bodies(store)
    assert 0 < len(found) <= COUNT and (len(found) == COUNT) == (gone == 0)
    assert found == [body_of(number) for number in range(COUNT - len(found), COUNT)]
    assert store.min_offset("T", 0) == COUNT - len(found)
    store.close()


def test_files_of_another_size_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_store(tmp_path)
    files = list(tmp_path.glob("consumequeue/*/*/*"))
    for path in files:
        path.write_bytes(path.read_bytes()[:160])
    before = {path: path.read_bytes() for path in files}
    with pytest.raises(StoreError, match=r"has 160 bytes, but mappedFileSizeConsumeQueue is 200"):
        open_small(tmp_path)
    assert {path: path.read_bytes() for path in files} == before
    run(tmp_path, "check")
    assert "have 160 bytes, but mappedFileSizeConsumeQueue is 200" in capsys.readouterr().out


def test_one_file_that_is_too_long_is_refused(tmp_path: Path) -> None:
    make_store(tmp_path)
    path = queue_file(tmp_path, 1)
    path.write_bytes(path.read_bytes() + bytes(20))
    with pytest.raises(StoreError, match=r"has 220 bytes"):
        open_small(tmp_path)


@pytest.mark.parametrize("number", [0, 1, 3])
def test_of_a_single_queue_most_files_tell_the_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int
) -> None:
    make_store(tmp_path, others=0)
    (tmp_path / "broker.conf").write_text(SETTINGS.rpartition("mapped")[0])
    damage(tmp_path, number, 100)
    assert run(tmp_path, "check") == 1
    assert f"{queue_file(tmp_path, number)} has 100 bytes" in capsys.readouterr().out
    assert run(tmp_path, "repair", "--apply") == 0
    assert_whole(tmp_path)
