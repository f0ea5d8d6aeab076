"""`cometmq store` given what it cannot use: exit code 2, a sentence that names it, and nothing is changed or made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.store.kit import open_small, send, settle

from cometmq.cli import main

LOOKS = [["check"], ["dump"], ["repair"], ["repair", "--apply"], ["repair", "--apply", "--accept-loss"]]


def make_store(root: Path) -> None:
    store = open_small(root)
    send(store, b"x", keys="k")
    settle(store)
    store.close()
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text('{"topicConfigTable":{}}')
    (root / "broker.conf").write_text("maxHashSlotNum=16\nmaxIndexNum=64\n")


def run(root: Path, what: str, *more: str) -> int:
    conf = root / "broker.conf"
    return main(["store", what, str(root), *(["-c", str(conf)] if conf.exists() else []), *more])


@pytest.mark.parametrize("look", LOOKS, ids=" ".join)
@pytest.mark.parametrize("what", ["nothing", "a file", "an empty folder"])
def test_what_is_no_store_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], look: list[str], what: str
) -> None:
    root = tmp_path / "DIR"
    if what == "a file":
        root.write_text("mine")
    elif what == "an empty folder":
        root.mkdir()
    before = sorted(tmp_path.rglob("*"))
    assert run(root, *look) == 2
    assert f"{root} is no store" in capsys.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("look", LOOKS, ids=" ".join)
def test_of_a_running_broker_only_dump_looks_at_the_store(tmp_path: Path, look: list[str]) -> None:
    make_store(tmp_path)
    store = open_small(tmp_path)
    try:
        command = [sys.executable, "-m", "cometmq.cli", "store", look[0], str(tmp_path), *look[1:]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        store.close()
    if look == ["dump"]:
        assert done.returncode == 0 and len(done.stdout.splitlines()) == 1
    else:
        assert done.returncode == 2 and "a broker has this store open. Stop it first" in done.stderr
        assert "storePathRootDir" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["repair", "--accept-loss"], "--accept-loss goes with --apply"),
        (["dump", "--limit", "-1"], "-1 is no number from 0 on"),
        (["dump", "--queue", "-1"], "-1 is no number from 0 on"),
        (["dump", "--offset", "x"], "x is no number from 0 on"),
    ],
)
def test_options_that_mean_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    make_store(tmp_path)
    with pytest.raises(SystemExit) as left:
        run(tmp_path, *arguments)
    assert left.value.code == 2 and told in capsys.readouterr().err


def test_a_limit_of_none_shows_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_store(tmp_path)
    assert run(tmp_path, "dump", "--limit", "0") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("look", [["check"], ["repair"], ["repair", "--apply"]], ids=" ".join)
@pytest.mark.parametrize("file", ["commitlog/*", "index/*", "consumequeue/T/0/*", "checkpoint"])
def test_what_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], look: list[str], file: str
) -> None:
    make_store(tmp_path)
    (path,) = tmp_path.glob(file)
    path.unlink()
    if file == "checkpoint":
        path.mkdir()
    else:
        path.symlink_to(path.name)  # a file that points to itself cannot be opened
    assert run(tmp_path, *look) == 2
    err = capsys.readouterr().err
    assert f"cometmq store {look[0]}: {tmp_path}" in err and "Errno" not in err, err


def test_a_settings_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_store(tmp_path)
    assert main(["store", "check", str(tmp_path), "-c", str(tmp_path / "gone")]) == 2
    assert "cannot read the configuration file" in capsys.readouterr().err


def test_an_empty_log_is_called_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "commitlog").mkdir()
    assert run(tmp_path, "check") == 0
    out = capsys.readouterr().out
    assert f"note: nothing is there: {tmp_path}/commitlog has no file, and nothing speaks of messages" in out
    make_store(tmp_path / "other")
    assert run(tmp_path / "other", "check") == 0
    assert "nothing is there" not in capsys.readouterr().out


def test_what_is_to_be_moved_away_wants_no_backup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_store(tmp_path)
    (tmp_path / "commitlog" / "notes.txt").write_text("mine")
    assert run(tmp_path, "repair") == 1
    out = capsys.readouterr().out
    assert "notes.txt does not belong to the store: move it away" in out and "restore a backup" not in out
    assert "nothing here can be repaired: move away what does not belong to the store" in out
