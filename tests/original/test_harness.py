"""The harness itself: what it does when something is missing, half done or broken."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.original import ServerFailed, ServerProcess, free_broker_port, require
from tests.original.cache import fingerprint, once, run_tool
from tests.original.class_archive import archive_flags


class Script(ServerProcess):
    """A "server" that is one line of Python."""

    def __init__(self, directory: Path, line: str) -> None:
        super().__init__(directory, port=0)
        self.line = line

    def command(self) -> list[str]:
        return [sys.executable, "-u", "-c", self.line]


SERVES = "import time; print('boot success'); time.sleep(60)"


def test_a_missing_tool_skips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="NOT TESTED: no-such-tool"):
        require("no-such-tool")


def test_a_missing_tool_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="NOT TESTED: no-such-tool"):
        require("no-such-tool")


def test_an_entry_is_built_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COMETMQ_CACHE", str(tmp_path))
    built: list[Path] = []
    places = {once("entry", "Building", built.append) for _ in range(3)}
    assert places == {tmp_path / "entry"}
    assert len(built) == 1


def test_an_interrupted_build_leaves_no_entry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COMETMQ_CACHE", str(tmp_path))

    def broken(folder: Path) -> None:
        (folder / "half").touch()
        raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        once("entry", "Building", broken)
    assert not (tmp_path / "entry").exists()
    assert list(once("entry", "Building", lambda folder: None).iterdir()) == []


def test_a_failed_tool_is_quoted(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"exit code 3(.|\n)*no such artifact"):
        run_tool([sys.executable, "-c", "print('no such artifact'); raise SystemExit(3)"], cwd=tmp_path)


def test_a_fingerprint_follows_name_and_content(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text("same")
    b.write_text("same")
    keys = {fingerprint([a]), fingerprint([b]), fingerprint([a, b]), fingerprint([a], "5.5.0")}
    a.write_text("other")
    assert fingerprint([a]) not in keys
    assert len(keys) == 4


def test_classes_are_archived_once_and_anew_for_other_jars(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COMETMQ_CACHE", str(tmp_path))
    (tmp_path / "jars").mkdir()
    jar = tmp_path / "jars" / "one.jar"
    jar.touch()
    trained: list[Path] = []

    def train(flag: str) -> None:
        trained.append(Path(flag.removeprefix("-XX:ArchiveClassesAtExit=")))
        trained[-1].touch()

    flags = [archive_flags(tmp_path / "jars", train) for _ in range(2)]
    assert flags[0] == flags[1] and len(trained) == 1
    assert Path(flags[0][0].removeprefix("-XX:SharedArchiveFile=")).exists()
    os.utime(jar, (1, 1))
    assert archive_flags(tmp_path / "jars", train) != flags[0]
    assert len(trained) == 2


def test_a_jvm_that_wrote_no_archive_is_given_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COMETMQ_CACHE", str(tmp_path))
    (tmp_path / "jars").mkdir()
    assert archive_flags(tmp_path / "jars", lambda flag: None) == ()


def test_a_server_runs_until_it_is_stopped(tmp_path: Path) -> None:
    with Script(tmp_path, SERVES) as server:
        first = server.pid
        server.kill()
        server.start()
        assert server.pid != first
    assert not server.running


def test_a_server_that_ends_at_start_shows_its_log(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed, match=r"exit code 1(.|\n)*address in use"):
        Script(tmp_path, "raise SystemExit('address in use')").start()


def test_a_server_that_never_serves_is_killed(tmp_path: Path) -> None:
    server = Script(tmp_path, "import time; time.sleep(60)")
    with pytest.raises(ServerFailed, match="did not start within"):
        server.start(timeout_s=0.2)
    assert not server.running


def test_a_server_is_not_started_twice(tmp_path: Path) -> None:
    with Script(tmp_path, SERVES) as server, pytest.raises(ServerFailed, match="already runs"):
        server.start()


def test_a_broker_port_leaves_room_for_its_neighbours() -> None:
    assert 15_000 <= free_broker_port() <= 32_000
