"""The commands as processes: boot lines, signals, exit codes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.store.kit import FILE_UNITS, SEGMENT_SIZE, open_small, send, settle

from cometmq.model.names import AUTO_CREATE_TOPIC
from cometmq.net.pool import connect
from cometmq.wire.bodies.route import decode_route
from cometmq.wire.requests.namesrv import GetRouteInfo

pytestmark = pytest.mark.timeout(90)

NOBODY = "127.0.0.1:1"  # a name server that is away


@contextmanager
def running(folder: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-u", *command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def lines_until(process: subprocess.Popen[str], mark: str) -> list[str]:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if mark in line:
            return lines
    raise AssertionError(f"{mark!r} was not printed, but:\n" + "\n".join(lines))


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_name_server_boots_and_stops_cleanly(tmp_path: Path, stop: signal.Signals) -> None:
    (tmp_path / "namesrv.conf").write_text(f"listenPort=0\nkvConfigPath={tmp_path}/kv.json\n")
    with running(tmp_path, "-m", "cometmq.cli", "namesrv", "-c", "namesrv.conf") as process:
        line = lines_until(process, "boot success")[-1]
        assert re.fullmatch(r"The Name Server boot success\. serializeType=JSON, address 127\.0\.0\.1:\d+", line)
        process.send_signal(stop)
        assert process.wait(30) == 0


async def test_standalone_serves_a_route_to_its_own_broker(tmp_path: Path) -> None:
    with running(
        tmp_path, "-m", "cometmq.cli", "standalone", "--namesrv-port", "0", "--broker-port", "0", "--data", "here"
    ) as process:
        banner = "\n".join(lines_until(process, "try next"))
        assert f"data        {tmp_path}/here" in banner
        assert "an acknowledged message is on this machine's disk" in banner and "SYNC_FLUSH" in banner
        namesrv = re.search(r"NameServer +(\S+)", banner)
        broker = re.search(r"broker +127\.0\.0\.1:(\d+), (\d+) \(fast\) and (\d+) \(slaves\)", banner)
        told = re.search(r"clients +are told (\S+)", banner)
        assert namesrv is not None and told is not None and broker is not None
        port, fast, slaves = map(int, broker.groups())
        assert (told[1], fast, slaves) == (f"127.0.0.1:{port}", port - 2, port + 1)
        assert f"tour -n {namesrv[1]}" in banner
        channel = await connect(namesrv[1])
        route = decode_route((await channel.call(GetRouteInfo(AUTO_CREATE_TOPIC))).body)
        assert route.brokers[0].addrs == {0: told[1]}
        assert (route.brokers[0].broker_name, route.brokers[0].cluster) == ("broker-a", "DefaultCluster")
        channel.close()
        process.send_signal(signal.SIGINT)
        assert lines_until(process, "Stopped")
        assert process.wait(30) == 0
    assert (tmp_path / "here" / "commitlog").is_dir()
    assert not (tmp_path / "here" / "abort").exists()


def test_standalone_promises_nothing_over_a_damaged_store(tmp_path: Path) -> None:
    store = open_small(tmp_path / "here")
    for number in range(5):
        send(store, b"message %d" % number * 20)
    settle(store)
    store.maintain(thorough=True)
    store.abandon()
    (tmp_path / "here" / "config").mkdir(exist_ok=True)
    (tmp_path / "here" / "config" / "topics.json").write_text('{"topicConfigTable":{}}')
    log = tmp_path / "here" / "commitlog" / f"{0:020d}"
    log.write_bytes(log.read_bytes().replace(b"message 2", b"massage 2", 1))
    (tmp_path / "small.conf").write_text(
        f"mappedFileSizeCommitLog={SEGMENT_SIZE}\nmappedFileSizeConsumeQueue={FILE_UNITS * 20}\n"
        "maxHashSlotNum=16\nmaxIndexNum=64\n"
    )
    command = "standalone --namesrv-port 0 --broker-port 0 --data here -c small.conf"
    with running(tmp_path, "-m", "cometmq.cli", *command.split()) as process:
        banner = "\n".join(lines_until(process, "try next"))
        assert f"durability  FOR READING ONLY: {log} is damaged at byte" in banner
        assert "an acknowledged message" not in banner
        process.send_signal(signal.SIGINT)
        last = lines_until(process, "Stopped")[-1]
        assert f"no messages were taken: {log} is damaged at byte" in last and "All that" not in last
        assert process.wait(30) == 0


def test_a_broker_says_what_clients_are_told_and_by_whose_choice(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text("listenPort=0\nbindAddress=0.0.0.0\nstorePathRootDir=here\n")
    with running(tmp_path, "-m", "cometmq.cli", "broker", "-c", "broker.conf", "-n", NOBODY) as process:
        lines = lines_until(process, "acknowledged message")
        booted = rf"The broker\[broker-a, (\S+)\] boot success\. serializeType=JSON and name server is {NOBODY}"
        boot, told = (re.search(pattern, "\n".join(lines)) for pattern in (booted, r"told (.+) \((.+)\)"))
        assert boot is not None and told is not None
        assert told[1] == boot[1] and "brokerIP1 is not set" in told[2]
        assert "without authentication" in "\n".join(lines)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


HANGING = """
import asyncio
from cometmq.cli.serve import serve

class Hanging:
    async def start(self): {start}
    async def stop(self):
        print("stopping", flush=True)
        {stop}

serve(Hanging(), lambda: print("ready", flush=True))
"""


def test_a_second_interrupt_ends_it_at_once(tmp_path: Path) -> None:
    script = HANGING.format(start="pass", stop="await asyncio.sleep(600)")
    with running(tmp_path, "-c", script) as process:
        lines_until(process, "ready")
        process.send_signal(signal.SIGINT)
        lines_until(process, "stopping")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130


def test_it_stops_while_it_starts(tmp_path: Path) -> None:
    script = HANGING.format(start='print("starting", flush=True); await asyncio.sleep(600)', stop="pass")
    with running(tmp_path, "-c", script) as process:
        lines_until(process, "starting")
        process.send_signal(signal.SIGTERM)
        lines_until(process, "stopping")
        assert process.wait(30) == 0


def test_a_start_that_fails_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "kv.json").write_text("broken")
    (tmp_path / "namesrv.conf").write_text(f"listenPort=0\nkvConfigPath={tmp_path}/kv.json\n")
    with running(tmp_path, "-m", "cometmq.cli", "namesrv", "-c", "namesrv.conf") as process:
        told, _ = process.communicate(timeout=30)
        assert process.returncode == 1
        assert told.startswith(f"cometmq: the key-value file {tmp_path}/kv.json cannot be read")
        assert "Traceback" not in told
