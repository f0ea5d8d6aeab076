"""The command `cometmq`, called in this process: what it prints, and how it says no."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cometmq import log
from cometmq.cli import COMMANDS, main, options
from cometmq.cli.upstream import mqbroker, mqnamesrv
from cometmq.errors import ConfigError
from cometmq.standalone.app import Chosen


def test_the_commands_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS)


def test_an_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["brokr"]) == 2
    assert "there is no command 'brokr'" in capsys.readouterr().err


def test_an_interrupt_before_it_serves_is_no_fault_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(arguments: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("cometmq.cli.version.run", interrupted)
    assert main(["version"]) == 130


@pytest.mark.parametrize("arguments", [["version"], ["--version"], ["-V"]])
def test_the_version_is_printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith("CometMQ ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["namesrv", "-c", "no-such-file"], "cannot read the configuration file no-such-file"),
        (["namesrv", "--port", "99999"], "cannot listen on 127.0.0.1:99999: a port is a number from 0 to 65535"),
        (["namesrv", "--host", "203.0.113.9"], "It is no address of this machine"),
        (["standalone", "--broker-port", "2"], "listenPort=2: 3 to 65534 are possible"),
        (["broker", "-n", "nonsense"], "The Name Server Address[nonsense] illegal"),
        (["broker", "-c", "no-such-file"], "cannot read the configuration file no-such-file"),
        (["standalone", "-c", "no-such-file"], "cannot read the configuration file no-such-file"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    told = capsys.readouterr().err
    assert told.startswith("cometmq: ") and sentence in told
    assert told.count("\n") == 1 and "Traceback" not in told


@pytest.mark.parametrize("text", ["listenPort=many", "enableTopicList=perhaps"])
def test_a_setting_of_the_wrong_kind_is_named(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "namesrv.conf").write_text(text)
    assert main(["namesrv", "-c", str(tmp_path / "namesrv.conf")]) == 1
    assert text in capsys.readouterr().err


def test_mqnamesrv_prints_its_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf = tmp_path / "namesrv.conf"
    conf.write_text("listenPort=19876\n")
    assert mqnamesrv(["-c", str(conf), "-p"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"load config properties file OK, {conf}"
    assert {"listenPort=19876", "orderMessageEnable=false"} <= set(lines)


def test_mqbroker_prints_its_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf = tmp_path / "broker.conf"
    conf.write_text("brokerName=b\nbrokerIP1=10.0.0.1\n")
    assert mqbroker(["-c", str(conf), "-p", "-n", "h:1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"brokerName=b", "brokerIP1=10.0.0.1", "namesrvAddr=h:1", "flushDiskType=SYNC_FLUSH"} <= set(lines)
    assert "inSyncReplicas=1" in lines
    assert mqbroker(["-m"]) == 0
    important = capsys.readouterr().out.splitlines()
    assert "autoCreateTopicEnable=true" in important and not any("brokerName" in line for line in important)


def test_the_flag_wins_over_the_file_and_the_file_over_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cometmq.cli.broker import broker_values

    monkeypatch.setenv("NAMESRV_ADDR", "env:1")
    conf = tmp_path / "broker.conf"
    conf.write_text("namesrvAddr=file:1")
    assert broker_values(str(conf), "flag:1;flag:2")["namesrvAddr"] == "flag:1;flag:2"
    assert broker_values(str(conf), None)["namesrvAddr"] == "file:1"
    assert broker_values(None, None)["namesrvAddr"] == "env:1"


def test_a_server_that_others_can_reach_warns(caplog: pytest.LogCaptureFixture) -> None:
    for host in ("127.0.0.1", "localhost", "::1"):
        options.warn_if_open(host, "broker")
    assert not caplog.records
    options.warn_if_open("0.0.0.0", "broker")
    assert "without authentication" in caplog.text


def test_standalone_takes_flags_over_the_file_over_defaults(tmp_path: Path) -> None:
    file_values = {"storePathRootDir": "/from/file", "listenPort": "1", "brokerName": "mine"}
    from_file = Chosen().broker_values(file_values)
    assert (from_file["storePathRootDir"], from_file["listenPort"]) == ("/from/file", "1")
    flags = Chosen(data=str(tmp_path), host="::1", broker_port=0).broker_values(file_values)
    assert flags == {
        "storePathRootDir": str(tmp_path),
        "listenPort": "0",
        "bindAddress": "::1",
        "brokerName": "mine",
    }
    assert Chosen().broker_values({})["storePathRootDir"] == str(Path("data").absolute())


def test_the_level_of_the_log_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMETMQ_LOG", "loud")
    with pytest.raises(ConfigError, match="COMETMQ_LOG=LOUD"):
        log.configure()


def test_a_name_server_starts_without_the_rest() -> None:
    asked = "import sys, cometmq.cli.namesrv; print(*sorted(m for m in sys.modules if m.startswith('cometmq.')))"
    done = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert not {"cometmq.broker", "cometmq.store", "cometmq.standalone"} & set(done.stdout.split())
