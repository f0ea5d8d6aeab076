"""Messages wait in a folder that passes to the other broker: each is delivered once, none early, whoever does it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.original import BrokerProcess, CometNamesrv

from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire import fastjson
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.record import Record, decode_records
from cometmq.wire.requests.consume import PullMessage
from cometmq.wire.requests.send import SendMessageV2
from cometmq.wire.requests.timer import GetTimerCheckPoint, GetTimerMetrics, RecallMessage

from .exchange import CREATE, GROUP, TOPIC, broker_of

pytestmark = pytest.mark.timeout(300)

COUNT = 40
OTHER = {"java": "comet", "comet": "java"}
# The original takes its time to stop, and CometMQ none: some wait until the other has started.
SPREAD_S = {"java": 18, "comet": 9}
TIMED_CONF = {"recallMessageEnable": "true", "mappedFileSizeTimerLog": 52 * 25 + 20}


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    with CometNamesrv(tmp_path_factory.mktemp("namesrv")) as running:
        yield [running.addr]


@pytest.mark.parametrize("first", ["java", "comet"])
def test_waiting_messages_pass_to_the_other(first: str, tmp_path: Path, namesrv: list[str]) -> None:
    store = tmp_path / "store"
    with broker_of(first, tmp_path, store, namesrv, **TIMED_CONF) as broker:
        due_ms, recalled = asyncio.run(_send(broker.addr, SPREAD_S[first]))
        broker.stop()
    with broker_of(OTHER[first], tmp_path, store, namesrv, **TIMED_CONF) as broker:
        wanted = set(due_ms) - recalled - {"tomorrow"}
        found = asyncio.run(_delivered(broker, len(wanted)))
        assert Counter(record.body.decode() for record in found) == Counter(wanted)
        assert not {record.body: record.store_time_ms for record in found if record.store_time_ms < due(due_ms, record)}
        asyncio.run(_still_waits(broker.addr))
        broker.kill()


def due(due_ms: dict[str, int], record: Record) -> int:
    return due_ms[record.body.decode()]


async def _send(address: str, spread_s: int) -> tuple[dict[str, int], set[str]]:
    """Messages for the next seconds and one for tomorrow, of which some are recalled."""
    channel = await connect(address)
    await _ask(channel, CREATE.command())
    now_ms = int(time.time() * 1000)
    due_ms = {f"m{n}": now_ms + 1_500 + n * spread_s * 1000 // COUNT for n in range(COUNT)}
    due_ms["tomorrow"] = now_ms + 86_400_000
    handles: dict[str, str] = {}
    for name, at_ms in due_ms.items():
        text = f"UNIQ_KEY\x01{name}\x02TIMER_DELIVER_MS\x01{at_ms}\x02"
        request = SendMessageV2(GROUP, TOPIC, "TBW102", 3, 0, 0, now_ms, 0, properties=text)
        answer = await _ask(channel, request.command(name.encode()))
        handles[name] = answer.ext["recallHandle"]
    recalled = {f"m{n}" for n in range(COUNT // 2, COUNT, 5)}
    for name in recalled:
        await _ask(channel, RecallMessage(GROUP, TOPIC, handles[name]).command())
    channel.close()
    return due_ms, recalled


async def _delivered(broker: BrokerProcess, count: int) -> list[Record]:
    """What is delivered: so many, and no more for a while."""
    channel = await connect(broker.addr)
    deadline = time.monotonic() + 60
    found: list[Record] = []
    complete_at: float | None = None
    while time.monotonic() < deadline and (complete_at is None or time.monotonic() < complete_at + 2):
        request = PullMessage(GROUP, TOPIC, 0, len(found), 32, 4, 0, 0, subscription="*", sub_version=0)
        answer = await channel.exchange(request.command(), timeout_ms=10_000)
        if answer.code == ResponseCode.SUCCESS:
            found += decode_records(bytes(answer.body), check_crc=True)
        if len(found) >= count and complete_at is None:
            complete_at = time.monotonic()
        await asyncio.sleep(0.1)
    channel.close()
    return found


async def _still_waits(address: str) -> None:
    channel = await connect(address)
    metrics: Any = fastjson.loads(bytes((await _ask(channel, GetTimerMetrics().command())).body))
    assert metrics["timingCount"][TOPIC]["count"] >= 1
    assert len((await _ask(channel, GetTimerCheckPoint().command())).body) == 56
    channel.close()


async def _ask(channel: Channel, command: Command) -> Command:
    answer = await channel.exchange(command, timeout_ms=10_000)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer
