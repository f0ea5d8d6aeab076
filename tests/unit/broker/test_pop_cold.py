"""Pops of what is on disk only: read in threads, never on the loop, also where an expression is asked first."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest
from tests.conftest import StartBroker

from cometmq.net.channel import Channel
from cometmq.store.fs import OsFs
from cometmq.store.reader import Range, Reader
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import decode_records
from cometmq.wire.requests.pop import Notification, PopMessage
from cometmq.wire.requests.send import SendMessageV2

TOPIC, GROUP = "T", "G"
COUNT = 200


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """A page cache that forgets: what an earlier process wrote is cold, until it is loaded, by a thread."""
    places: set[int] = set()
    load, slices = Reader.load, Reader.slices

    def noted(self: Reader, ranges: Sequence[Range]) -> list[bytes]:
        assert threading.current_thread() is not threading.main_thread()
        places.update(at for at, _ in ranges)
        return load(self, ranges)

    def only_warm(self: Reader, ranges: Sequence[Range]) -> list[memoryview]:
        cold = [at for at, _ in ranges if not self.is_recent(at) and at not in places]
        assert not cold, "the loop would wait for a disk"
        return slices(self, ranges)

    monkeypatch.setattr(OsFs, "in_memory", lambda self, view: False)
    monkeypatch.setattr(Reader, "load", noted)
    monkeypatch.setattr(Reader, "slices", only_warm)
    return places


async def fill(channel: Channel) -> None:
    for number in range(COUNT):
        text = f"TAGS\x01{'even' if number % 2 == 0 else 'odd'}\x02n\x01{number}\x02"
        await channel.call(SendMessageV2("p", TOPIC, "TBW102", 2, number % 2, 0, 1, 0, text), b"%d" % number)


def pop(expression: str, kind: str = "SQL92", **fields: object) -> PopMessage:
    wanted: dict[str, object] = {"poll_time": 0, "max_msg_nums": 32, "queue_id": -1, **fields}
    return PopMessage(
        consumer_group=GROUP,
        topic=TOPIC,
        invisible_time=60_000,
        born_time=0,
        init_mode=0,
        exp_type=kind,
        exp=expression,
        **wanted,  # type: ignore[arg-type]
    )


async def popped(channel: Channel, request: PopMessage) -> list[int]:
    answer = await channel.exchange(request.command(), timeout_ms=10_000)
    assert answer.code in (ResponseCode.SUCCESS, ResponseCode.POLLING_TIMEOUT)
    return [int(record.body) for record in decode_records(bytes(answer.body))]


async def test_an_expression_is_asked_about_what_a_thread_has_read(broker: StartBroker, loaded: set[int]) -> None:
    async with broker() as (_, channel):
        await fill(channel)
    async with broker() as (_, channel):
        found: list[int] = []
        for _ in range(3 * COUNT):  # two at once: one finds that the other has moved the group on
            for some in await asyncio.gather(*(popped(channel, pop("n > 9 AND n < 190")) for _ in range(2))):
                found += some
            if len(found) >= 180:
                break
        assert sorted(found) == list(range(10, 190))
        assert loaded


async def test_who_waits_is_led_past_what_nobody_wants(broker: StartBroker, loaded: set[int]) -> None:
    async with broker() as (_, channel):
        await fill(channel)
    async with broker() as (_, channel):
        assert await popped(channel, pop("n = 199", poll_time=8_000)) == [199]


async def test_tags_need_no_record(broker: StartBroker, loaded: set[int]) -> None:
    async with broker() as (_, channel):
        await fill(channel)
    async with broker() as (_, channel):
        found: list[int] = []
        while some := await popped(channel, pop("odd", "TAG", queue_id=1)):
            found += some
        assert found == list(range(1, COUNT, 2))
        assert await popped(channel, pop("odd", "TAG", queue_id=0)) == []


async def test_a_notification_is_a_hint(broker: StartBroker, loaded: set[int]) -> None:
    async with broker() as (_, channel):
        await fill(channel)
    async with broker() as (_, channel):
        request = Notification(GROUP, TOPIC, 0, 0, 0, exp_type="SQL92", exp="n = 1000")
        assert (await channel.call(request)).ext["hasMsg"] == "true"
        assert not loaded


async def test_a_stop_ends_what_is_read(broker: StartBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker() as (_, channel):
        await fill(channel)
    monkeypatch.setattr(OsFs, "in_memory", lambda self, view: False)
    goes_on, load = threading.Event(), Reader.load

    def slow(self: Reader, ranges: Sequence[Range]) -> list[bytes]:
        goes_on.wait(2)
        return load(self, ranges)

    monkeypatch.setattr(Reader, "load", slow)
    async with broker() as (running, channel):
        waiting = asyncio.ensure_future(channel.exchange(pop("n > 1", poll_time=9_000).command(), timeout_ms=9_000))
        await channel.call(Notification(GROUP, TOPIC, 0, 0, 0))
        threading.Timer(0.2, goes_on.set).start()
        async with asyncio.timeout(5):
            await running.stop()
        waiting.cancel()
    monkeypatch.undo()
    async with broker() as (_, channel):
        assert await popped(channel, pop("n = 0", queue_id=0)) == [0]  # nobody took it
