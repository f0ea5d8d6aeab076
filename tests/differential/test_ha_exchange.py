"""A slave of each kind follows a master of the other: the same log byte for byte, and the same served from it.

Java's slave asks for the tables a minute after its start. With FAULT_SHARE=1 that minute is waited for; else it is
given them.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fault.harness import rows
from tests.original import BrokerProcess, CometNamesrv

from cometmq.net.pool import connect
from cometmq.wire import fastjson
from cometmq.wire.requests.ha import GetBrokerHaStatus

from .exchange import broker_of, fill, messages_of, served

pytestmark = pytest.mark.timeout(300)

COUNT = 400
SEGMENT = 1024 * 1024
AWAIT_S = 120.0
SLAVE = {"brokerRole": "SLAVE", "brokerId": 1, "slaveReadEnable": True}
QUICK = {"haSendHeartbeatInterval": 500, "registerNameServerPeriod": 10_000}


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    with CometNamesrv(tmp_path_factory.mktemp("namesrv")) as running:
        yield [running.addr]


@pytest.mark.parametrize(("leader", "follower"), [("java", "comet"), ("comet", "java")])
def test_a_slave_of_the_other_kind_has_and_serves_the_same(
    leader: str, follower: str, tmp_path: Path, namesrv: list[str]
) -> None:
    name = {"brokerName": f"led-by-{leader}"}
    logs, tables = tmp_path / "master", tmp_path / "slave"
    with broker_of(leader, tmp_path / "leading", logs, namesrv, **QUICK, **name) as master:
        fill(master, 0, 0)  # topics, a group and its offsets: a slave must know the kinds of queues first
        if follower == "java" and rows.share() is None:
            until(lambda: tables_are_there(logs), "the master's tables on its disk")
            shutil.copytree(logs / "config", tables / "config")
        slave = broker_of(follower, tmp_path / "following", tables, namesrv, **QUICK, **name, **SLAVE)
        with slave:
            until(lambda: tables_are_there(tables), "the master's tables at the slave")
            # One that asks late gets the last file only.
            until(lambda: asyncio.run(follows(master)), "a slave that asks")
            fill(master, 0, COUNT)
            assert served(slave, messages_of(COUNT)) == served(master, messages_of(COUNT))
            refused_sends(slave)
            slave.kill()
        master.kill()
    copied = log_of(tables).rstrip(b"\0")  # Java has its next file ready
    assert len(copied) > SEGMENT, "more than one file"
    assert log_of(logs).startswith(copied)


def test_an_empty_slave_of_a_java_master_has_its_last_file_only_and_says_so(tmp_path: Path, namesrv: list[str]) -> None:
    logs, copy = tmp_path / "master", tmp_path / "slave"
    name = {"brokerName": "long-led"}
    with broker_of("java", tmp_path / "leading", logs, namesrv, **QUICK, **name) as master:
        fill(master, 0, COUNT)
        end = asyncio.run(end_of(master))
        assert end > SEGMENT, "more than one file"
        with broker_of("comet", tmp_path / "following", copy, namesrv, **QUICK, **name, **SLAVE) as slave:
            until(lambda: asyncio.run(acknowledged_by_slave(master)) == end, "the slave has the end")
            warned = [line for line in slave.output().splitlines() if "WARNING cometmq.ha" in line]
            assert len(warned) == 1, warned
            assert "is a Java one: as we are empty, it sends the last file of its log only" in warned[0]
            slave.stop()
    first = end - end % SEGMENT
    assert [file.name for file in sorted((copy / "commitlog").iterdir())] == [f"{first:020}"]
    assert log_of(copy)[: end - first] == log_of(logs)[first:end]


async def end_of(master: BrokerProcess) -> int:
    return int((await status_of(master))["masterCommitLogMaxOffset"])


async def acknowledged_by_slave(master: BrokerProcess) -> int:
    return max((int(slave["slaveAckOffset"]) for slave in (await status_of(master))["haConnectionInfo"]), default=-1)


async def status_of(master: BrokerProcess) -> dict[str, Any]:
    channel = await connect(master.addr)
    try:
        status: dict[str, Any] = fastjson.loads((await channel.call(GetBrokerHaStatus(), timeout_ms=10_000)).body)
    finally:
        channel.close()
    return status


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + AWAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(0.1)


async def follows(master: BrokerProcess) -> bool:
    return any(slave["transferFromWhere"] >= 0 for slave in (await status_of(master))["haConnectionInfo"])


def tables_are_there(store: Path) -> bool:
    wanted = {"topics.json": "exchanged", "subscriptionGroup.json": "exchangers", "consumerOffset.json": "exchanged@"}
    files = {name: store / "config" / name for name in wanted}
    return all(files[name].exists() and text in files[name].read_text() for name, text in wanted.items())


def refused_sends(slave: BrokerProcess) -> None:
    with pytest.raises(Exception, match="REJECTREQUEST"):
        fill(slave, 0, 1)


def log_of(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((store / "commitlog").glob("0*")))
