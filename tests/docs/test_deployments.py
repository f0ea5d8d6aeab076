"""The deployments of examples/ start from their folders, take messages, stop at Ctrl-C; as does one made by flags."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.original.comet import comet_command
from tests.original.ports import free_broker_port, free_port

from cometmq import Message, Producer, Receipt, SendStatus
from cometmq.cli import main
from cometmq.net.pool import connect
from cometmq.wire import fastjson
from cometmq.wire.bodies.cluster import decode_cluster_info
from cometmq.wire.record import decode_records
from cometmq.wire.requests.consume import PullMessage
from cometmq.wire.requests.ha import GetBrokerHaStatus
from cometmq.wire.requests.namesrv import GetClusterInfo

FOLDER = Path(__file__).parents[2] / "examples" / "deployments"
DEADLINE_S = 60.0
QUEUES = 8  # of a topic that is made by sending, at most
FREE_PORTS = ("--namesrv-port", "0", "--broker-port", "0")


class Running:
    """`cometmq standalone` as a person sees it."""

    def __init__(self, data: Path, *arguments: str) -> None:
        command = comet_command("standalone", "--data", str(data), *arguments)
        self.output = data.with_name("output.txt")
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    @property
    def said(self) -> str:
        return self.output.read_text("utf-8")

    def until(self, words: str) -> str:
        """Read until this is said."""
        deadline = time.monotonic() + DEADLINE_S
        while words not in self.said:
            assert self.process.poll() is None and time.monotonic() < deadline, self.said
            time.sleep(0.02)
        return self.said

    def end(self) -> None:
        """At once, if it has not ended."""
        self.process.kill()
        self.process.wait()

    @property
    def members(self) -> dict[str, tuple[str, int]]:
        """Address and pid of each, as the banner tells."""
        found = re.findall(r"^  (\S+) +(127\.0\.0\.1:\d+) .*pid (\d+)$", self.said, re.MULTILINE)
        return {name: (address, int(pid)) for name, address, pid in found}

    @property
    def namesrvs(self) -> list[str]:
        return [address for name, (address, _) in self.members.items() if name.startswith("namesrv")]


@contextmanager
def running(data: Path, *arguments: str) -> Iterator[Running]:
    server = Running(data, *arguments)
    try:
        server.until("try next")
        yield server
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(DEADLINE_S) == 0
        assert not [pid for _, pid in server.members.values() if is_alive(pid)]
    finally:
        server.end()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def await_that(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def with_free_ports(source: Path, copy: Path) -> Path:
    """The same files with ports that nobody has."""
    ports: dict[str, str] = {}
    for file in sorted(source.glob("*.conf")):
        listed = re.search(r"^listenPort=(\d+)", file.read_text(), re.MULTILINE)
        assert listed is not None
        ports[listed[1]] = str(free_port() if file.name.startswith("namesrv") else free_broker_port())
    copy.mkdir()
    for file in source.glob("*.conf"):
        text = re.sub(r"(?<=[=:])\d{4,5}(?=[;\n])", lambda found: ports.get(found[0], found[0]), file.read_text())
        (copy / file.name).write_text(text)
    return copy


async def send_and_look(namesrvs: list[str], messages: int = 20) -> tuple[set[str], dict[str, set[int]]]:
    """The names of the brokers that took a message, and who is in the cluster as each NameServer tells."""
    async with Producer("deployments", namesrv=";".join(namesrvs)) as producer:
        receipts = [await producer.send(Message("deployed", b"x")) for _ in range(messages)]
    known = [await members_known_to(namesrv) for namesrv in namesrvs]
    assert all(one == known[0] for one in known)
    return {receipt.broker_name for receipt in receipts}, known[0]


async def have_followed(masters: list[str]) -> None:
    """Until each master has its slave in sync."""
    async with asyncio.timeout(DEADLINE_S):
        for address in masters:
            channel = await connect(address)
            while not fastjson.loads((await channel.call(GetBrokerHaStatus())).body)["inSyncSlaveNums"]:  # noqa: ASYNC110 (another process has no event)
                await asyncio.sleep(0.05)
            channel.close()


async def bodies_at(slave: str) -> list[bytes]:
    channel = await connect(slave)
    found: list[bytes] = []
    for queue_id in range(QUEUES):
        pull = PullMessage("look", "copied", queue_id, 0, 32, 4, 0, 0, 0, "*")
        found += [record.body for record in decode_records((await channel.exchange(pull.command())).body)]
    channel.close()
    return found


async def members_known_to(namesrv: str) -> dict[str, set[int]]:
    channel = await connect(namesrv)
    info = decode_cluster_info((await channel.call(GetClusterInfo())).body)
    channel.close()
    return {name: set(broker.addrs) for name, broker in info.brokers.items()}


A, B = "broker-a", "broker-b"
DEPLOYMENTS = {
    "one-master": {A: {0}},
    "several-masters": {A: {0}, B: {0}},
    "async-slaves": {A: {0, 1}, B: {0, 1}},
    "sync-double-write": {A: {0, 1}, B: {0, 1}},
    "several-name-servers": {A: {0}},
}


def test_every_example_is_named_here() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(DEPLOYMENTS)


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_it_starts_from_its_folder(name: str, tmp_path: Path) -> None:
    folder = with_free_ports(FOLDER / name, tmp_path / "files")
    with running(tmp_path / "data", "--deployment", str(folder)) as server:
        took, known = asyncio.run(send_and_look(server.namesrvs))
        assert took == set(DEPLOYMENTS[name])
        assert "waits for nobody" not in server.said
        assert known == DEPLOYMENTS[name]
        if 1 in known[A]:
            slaves_have_what_was_acknowledged(server, at_once=name == "sync-double-write")


def slaves_have_what_was_acknowledged(server: Running, *, at_once: bool) -> None:
    addresses = {member: address for member, (address, _) in server.members.items()}
    masters, slaves = ([addresses[one + end] for one in (A, B)] for end in ("", "-s"))
    asyncio.run(have_followed(masters))

    async def send() -> list[Receipt]:
        async with Producer("deployments", namesrv=";".join(server.namesrvs)) as producer:
            return [await producer.send(Message("copied", b"%d" % number)) for number in range(40)]

    def copied() -> list[bytes]:
        return [body for slave in slaves for body in asyncio.run(bodies_at(slave))]

    receipts = asyncio.run(send())
    assert {(receipt.broker_name, receipt.status) for receipt in receipts} == {(A, SendStatus.OK), (B, SendStatus.OK)}
    if at_once:  # else the slaves may be a moment behind
        for master in (A, B):
            os.kill(server.members[master][1], signal.SIGKILL)
    await_that(lambda: len(copied()) >= len(receipts), "the slaves have them")
    assert sorted(copied()) == sorted(b"%d" % number for number in range(40))


def test_a_name_server_may_die(tmp_path: Path) -> None:
    folder = with_free_ports(FOLDER / "several-name-servers", tmp_path / "files")
    with running(tmp_path / "data", "--deployment", str(folder)) as server:
        first, second = server.namesrvs
        asyncio.run(send_and_look([first, second]))
        os.kill(server.members["namesrv-1"][1], signal.SIGKILL)
        assert "was ended by SIGKILL; 2 others go on." in server.until("Start it again")

        async def send_on() -> set[str]:
            async with Producer("deployments", namesrv=f"{first};{second}") as producer:
                sent = {(await producer.send(Message("deployed", b"x"))).broker_name}
                await producer.send(Message("made-since", b"x"))  # a topic that only one of them can have
            assert await members_known_to(second) == {A: {0}}
            return sent

        assert asyncio.run(send_on()) == {A}
        os.kill(server.members[A][1], signal.SIGKILL)
        server.until("1 other goes on.")


def test_a_folder_in_use_is_left_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, "--masters", "1", *FREE_PORTS):
        before = {file.name: file.read_bytes() for file in data.glob("*.conf")}
        done = run("--masters", "2", "--data", str(data), *FREE_PORTS)
        assert done.returncode == 1
        assert f"{data / A / 'lock'} is locked: a broker has this store open. Stop it first" in done.stderr
        assert {file.name: file.read_bytes() for file in data.glob("*.conf")} == before


def test_the_death_of_one_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, "--masters", "2", "--namesrvs", "2", *FREE_PORTS) as server:
        assert set(server.members) == {"namesrv-1", "namesrv-2", A, B}
        os.kill(server.members[B][1], signal.SIGKILL)
        told = server.until("Start it again")
        assert f"{B} (pid {server.members[B][1]}) was ended by SIGKILL; 3 others go on." in told
        command = re.search(r"Start it again, in (.*): (.*)", told)
        assert command is not None and command[1] == str(data)
        assert command[2].partition("cometmq broker ")[2].startswith(f"-c {data / B}.conf -n ")
        assert "Traceback" not in told
        again = subprocess.Popen(
            [*comet_command(), *shlex.split(command[2])[1:]], cwd=data, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        try:
            assert again.stdout is not None
            assert any(b"boot success" in line for line in again.stdout)
        finally:
            again.kill()
            again.communicate()
    assert (
        f"Stopping 3 processes; a second Ctrl-C ends them at once.\nStopped. All that was acknowledged is in {data}\n"
        in (server.said)
    )


def test_they_stop_when_the_starter_is_killed(tmp_path: Path) -> None:
    server = Running(tmp_path / "data", "--masters", "1", *FREE_PORTS)
    try:
        server.until("try next")
        pids = [pid for _, pid in server.members.values()]
        assert len(pids) == 2
        server.end()
        await_that(lambda: not any(map(is_alive, pids)), "a process is left behind")
    finally:
        server.end()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = comet_command("standalone", *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)


def test_one_that_cannot_start_ends_all_with_its_reason(tmp_path: Path) -> None:
    bad = tmp_path / "files"
    bad.mkdir()
    (bad / "namesrv.conf").write_text(f"listenPort=0\nkvConfigPath={tmp_path}/kv.json\n")
    (bad / "broker-a.conf").write_text("flushDiskType=SOMETIMES\n")
    done = run("--deployment", str(bad), "--data", str(tmp_path / "data"))
    assert done.returncode == 1
    assert "broker-a did not start: it ended with exit code 1." in done.stderr
    assert "flushDiskType=SOMETIMES" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--masters", "0"], "--masters 0: 1 to 26 are possible"),
        (["--slaves", "99"], "--slaves 99: 0 to 8 are possible"),
        (["--masters", "26", "--broker-port", "65500"], "choose a smaller first one"),
        (["--deployment", "."], "is no deployment"),
        (["--deployment", ".", "--masters", "2"], "do not go with it"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_is_told(
    flags: list[str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["standalone", *flags]) == 1
    assert reason in capsys.readouterr().err
