"""Offsets: the file that broadcasting keeps, Java's and safe; and how brokers are told."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from cometmq.client.instance import ClientInstance
from cometmq.client.offset_store import BrokerOffsets, FileOffsets, StartFrom, start_of
from cometmq.errors import InvalidArgument, PeerUnreachable, ProtocolError
from cometmq.model.queue import MessageQueue

OF_JAVA = Path(__file__).parents[2] / "golden" / "client" / "offsets.json"
A, B = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-b", 3)


def store(folder: Path) -> FileOffsets:
    return FileOffsets("10.0.0.1@DEFAULT", "billing", folder)


async def test_a_file_of_java(tmp_path: Path) -> None:
    offsets = store(tmp_path)
    assert offsets.path == tmp_path / "10.0.0.1@DEFAULT" / "billing" / "offsets.json"
    offsets.path.parent.mkdir(parents=True)
    offsets.path.write_bytes(OF_JAVA.read_bytes())
    assert [await offsets.read(A), await offsets.read(B)] == [42, 9_000_000_000]
    assert await offsets.read(A._replace(queue_id=1)) is None
    assert await offsets.save({A: 50}) == {A}
    again = store(tmp_path)
    assert [await again.read(A), await again.read(B)] == [50, 9_000_000_000]


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b'{"offsetTab'])
async def test_a_damaged_file(tmp_path: Path, damage: bytes) -> None:
    offsets = store(tmp_path)
    await offsets.save({A: 1})
    await offsets.save({A: 2})
    offsets.path.write_bytes(damage)
    assert await store(tmp_path).read(A) == 1, "what was there before"
    offsets.path.with_name("offsets.json.bak").write_bytes(damage)
    with pytest.raises(ProtocolError, match="begin anew"):
        await store(tmp_path).read(A)


async def test_no_file_and_no_folder(tmp_path: Path) -> None:
    assert await store(tmp_path).read(A) is None
    (tmp_path / "file").write_text("in the way")
    blocked = store(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        await blocked.read(A)


def test_where_to_start() -> None:
    now = datetime.now(UTC)
    assert [start_of(given) for given in ("first", "LAST", StartFrom.FIRST, now)] == [
        StartFrom.FIRST,
        StartFrom.LAST,
        StartFrom.FIRST,
        now,
    ]
    for wrong in ("", "middle", datetime(2024, 1, 1)):  # noqa: DTZ001
        with pytest.raises(InvalidArgument):
            start_of(wrong)


class Broker:
    """Takes its time for commits, and notes how many were under way together."""

    def __init__(self) -> None:
        self.under_way = 0
        self.together: list[int] = []
        self.is_down = False

    async def call(self, broker_name: str, request: Any, **options: Any) -> None:
        self.under_way += 1
        self.together.append(self.under_way)
        await asyncio.sleep(0.05)
        self.under_way -= 1
        if self.is_down:
            raise PeerUnreachable("down")


async def test_the_first_offset_of_a_topic_goes_alone() -> None:
    broker = Broker()
    offsets = BrokerOffsets(cast(ClientInstance, broker), "billing")
    queues = {A._replace(queue_id=number): 7 for number in range(5)}
    broker.is_down = True
    assert await offsets.save(queues) == set()
    assert max(broker.together) == 1, "as long as none is kept"
    broker.is_down = False
    broker.together.clear()
    assert await offsets.save(queues) == set(queues)
    assert (broker.together[0], max(broker.together)) == (1, 4)
    broker.together.clear()
    assert await offsets.save(queues) == set(queues)
    assert max(broker.together) == 5
