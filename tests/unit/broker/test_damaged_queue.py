"""Whatever a consumer asks, flipped bits in the file of its queue cost it no message, in memory or on disk only."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import StartBroker

from cometmq.net.channel import Channel
from cometmq.store import unit_healing
from cometmq.store.fs import OsFs
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import decode_records
from cometmq.wire.requests.consume import PullMessage
from cometmq.wire.requests.pop import PeekMessage, PopMessage
from cometmq.wire.requests.send import SendMessageV2

TOPIC, GROUP, COUNT = "T", "G", 20
ON = {"enablePropertyFilter": "true"}
# Of units: a place outside the log, one within it, a size, and two in a row.
FLIPS = {0: (2, 0x20), 4: (7, 0x01), 7: (11, 0x02), 12: (6, 0x01), 13: (7, 0x80), 19: (10, 0x01)}


@pytest.fixture(params=[False, True], ids=["in memory", "on disk only"])
def _where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param:
        monkeypatch.setattr(OsFs, "in_memory", lambda self, view: False)


async def fill(channel: Channel) -> None:
    for number in range(COUNT):
        await channel.call(SendMessageV2("p", TOPIC, "TBW102", 1, 0, 0, 1, 0, f"n\x01{number}\x02"), b"%d" % number)


def damage(folder: Path) -> Path:
    (path,) = (folder / "store" / "consumequeue" / TOPIC / "0").iterdir()
    data = bytearray(path.read_bytes())
    for number, (byte, bit) in FLIPS.items():
        data[number * 20 + byte] ^= bit
    path.write_bytes(data)
    return path


async def pull(channel: Channel, offset: int, expression: str | None) -> tuple[list[int], int]:
    kind = "TAG" if expression is None else "SQL92"
    request = PullMessage(GROUP, TOPIC, 0, offset, 6, 4, 0, 0, 0, subscription=expression or "*", expression_type=kind)
    answer = await channel.exchange(request.command(), timeout_ms=20_000)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    found = [int(record.body) for record in decode_records(bytes(answer.body), check_crc=True)]
    return found, int(answer.ext["nextBeginOffset"])


@pytest.mark.usefixtures("_where")
@pytest.mark.parametrize("expression", [None, "n >= 0"])
async def test_pulls(broker: StartBroker, tmp_path: Path, expression: str | None) -> None:
    async with broker(**ON) as (_, channel):
        await fill(channel)
    damaged = damage(tmp_path).read_bytes()
    async with broker(**ON) as (_, channel):
        seen: list[int] = []
        offset = 0
        while offset < COUNT:
            found, offset = await pull(channel, offset, expression)
            seen += found
        assert seen == list(range(COUNT))
    assert damage(tmp_path).read_bytes() == damaged  # it was mended, and is damaged as before


@pytest.mark.usefixtures("_where")
async def test_pops_and_peeks(broker: StartBroker, tmp_path: Path) -> None:
    async with broker() as (_, channel):
        await fill(channel)
    damage(tmp_path)
    async with broker() as (_, channel):
        for request in (PeekMessage(GROUP, TOPIC, 0, 32), PopMessage(GROUP, TOPIC, 0, 32, 60_000, 0, 0, 0)):
            answer = await channel.exchange(request.command(), timeout_ms=20_000)
            assert answer.code == ResponseCode.SUCCESS, answer.remark
            assert [int(record.body) for record in decode_records(bytes(answer.body))] == list(range(COUNT))


@pytest.mark.usefixtures("_where")
async def test_what_is_far_away_is_found_soon(
    broker: StartBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_healing, "WALK_SIZE_MAX", 0)
    settings = {"flushIntervalConsumeQueue": "20"}
    async with broker(**settings) as (_, channel):
        await fill(channel)
    path = damage(tmp_path)
    async with broker(**settings) as (_, channel):
        request = PullMessage(GROUP, TOPIC, 0, 4, 1, 4, 0, 0, 0, subscription="*")
        answer = await channel.exchange(request.command(), timeout_ms=20_000)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert f"{path}: the unit of message 4 " in (answer.remark or "") and "store repair" in (answer.remark or "")
        while answer.code != ResponseCode.SUCCESS:  # the suite's limit of time ends it
            answer = await channel.exchange(request.command(), timeout_ms=20_000)
        assert [int(record.body) for record in decode_records(bytes(answer.body))] == [4]
