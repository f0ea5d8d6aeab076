"""Who waits for messages to pop: woken one by one, at no cost for others, answered in time, never too many."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.conftest import StartBroker

from cometmq.broker.pop.long_polling import ANY_QUEUE, Parked, Polling, PopLongPolling
from cometmq.clock import SystemClock
from cometmq.net.channel import Channel
from cometmq.net.routes import Call
from cometmq.store.fs import OsFs
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.record import decode_records
from cometmq.wire.requests.admin import DeleteTopicInBroker
from cometmq.wire.requests.consume import ResetOffset
from cometmq.wire.requests.pop import Notification, PeekMessage, PollingInfo, PopMessage
from cometmq.wire.requests.send import SendMessageV2

from .pop_kit import FakeChannel

TOPIC, GROUP = "T", "G"
ANY = TOPIC, GROUP, ANY_QUEUE


class Waiting:
    """A long polling of which the woken are written down."""

    def __init__(self, total_max: int = 100_000, key_max: int = 50_000, *, newest_first: bool = False) -> None:
        self.woken: list[object] = []
        self.wakes = asyncio.Event()
        self.polling = PopLongPolling(
            lambda parked: self._wake(parked), SystemClock(), total_max, key_max, newest_first=newest_first
        )

    def _wake(self, parked: Parked) -> None:
        self.woken.append(parked.request)
        self.wakes.set()

    def park(self, name: object, queue_id: int = ANY_QUEUE, poll_ms: int = 60_000, topic: str = TOPIC) -> Call:
        call = Call(FakeChannel(), Command(0))  # type: ignore[arg-type]
        key = topic, GROUP, queue_id
        assert self.polling.park(key, SystemClock().now_ms(), poll_ms, call, name) is Polling.PARKED
        return call


async def test_an_arrival_wakes_one_of_each_kind() -> None:
    waiting = Waiting()
    for name in ("any 1", "any 2"):
        waiting.park(name)
    waiting.park("queue 0", 0)
    waiting.park("queue 1", 1)
    waiting.park("other topic", topic="U")
    waiting.polling.arrived([(TOPIC, 1, 5)])
    assert waiting.woken == ["any 1", "queue 1"]
    assert waiting.polling.count(ANY) == 1
    waiting.polling.close()
    assert len(waiting.woken) == 5


async def test_an_arrival_in_a_retry_topic_wakes_its_group() -> None:
    for retry_topic in ("%RETRY%G_T", "%RETRY%G+T"):
        waiting = Waiting()
        waiting.park("any")
        waiting.polling.arrived([("%RETRY%G", 0, 1), ("%RETRY%H_T", 0, 1)])
        assert waiting.woken == []
        waiting.polling.arrived([(retry_topic, 0, 1)])
        assert waiting.woken == ["any"]
        waiting.polling.close()


async def test_the_newest_may_come_first_and_the_gone_are_passed_over() -> None:
    waiting = Waiting(newest_first=True)
    waiting.park("old")
    gone = waiting.park("gone")
    gone.channel.is_open = False  # type: ignore[misc]
    assert waiting.polling.notify(ANY)
    assert waiting.woken == ["old"]
    assert not waiting.polling.notify(ANY)
    waiting.polling.close()


async def test_there_is_a_maximum() -> None:
    waiting = Waiting(total_max=3, key_max=1)
    calls = [waiting.park(name, queue_id) for name, queue_id in (("a", 0), ("b", 0), ("c", 1))]
    key = TOPIC, GROUP, 2
    now_ms = SystemClock().now_ms()
    assert waiting.polling.park(key, now_ms, 9_000, calls[0], "d") is Polling.FULL
    calls[0].channel.is_open = False  # type: ignore[misc]
    waiting.polling._swept_at = -9.0  # it does not look for the gone each time
    assert waiting.polling.park(key, now_ms, 9_000, calls[1], "d") is Polling.PARKED
    assert waiting.polling.park((TOPIC, GROUP, 2), now_ms - 9_000, 9_000, calls[1], "e") is Polling.FULL
    waiting.polling.notify((TOPIC, GROUP, 1))
    assert waiting.polling.park(key, now_ms - 9_000, 9_000, calls[1], "late") is Polling.TIMEOUT
    assert waiting.polling.park(key, now_ms, 0, calls[1], "no time") is Polling.TIMEOUT
    waiting.polling.close()
    assert waiting.polling.park(key, now_ms, 9_000, calls[1], "closed") is Polling.TIMEOUT


async def test_deadlines_are_kept() -> None:
    waiting = Waiting()
    waiting.park("soon", poll_ms=80)
    waiting.park("later", poll_ms=60_000)
    async with asyncio.timeout(2):
        await waiting.wakes.wait()
    assert waiting.woken == ["soon"]
    waiting.polling.close()


async def test_ten_thousand_that_wait_cost_others_nothing() -> None:
    waiting = Waiting()
    for number in range(10_000):
        waiting.park(number, topic=f"T{number % 100}")
    began = time.process_time()
    for _ in range(20_000):
        waiting.polling.arrived([("elsewhere", 0, 1)])
    others_s = time.process_time() - began
    assert others_s < 0.5, f"20,000 arrivals elsewhere took {others_s:.2f} s"
    assert not waiting.woken
    waiting.polling.close()


async def test_deadlines_of_the_answered_are_forgotten() -> None:
    waiting = Waiting()
    for number in range(5_000):
        waiting.park(number)
        waiting.polling.notify(ANY)
    assert len(waiting.polling) == 0
    assert len(waiting.polling._deadlines) < 1_100
    waiting.polling.close()


def pop_of(poll_ms: int, count: int = 32, queue_id: int = -1) -> PopMessage:
    return PopMessage(
        consumer_group=GROUP,
        topic=TOPIC,
        queue_id=queue_id,
        max_msg_nums=count,
        invisible_time=30_000,
        poll_time=poll_ms,
        born_time=0,
        init_mode=0,
    )


async def send(channel: Channel, *bodies: bytes) -> None:
    request = SendMessageV2("producers", TOPIC, "TBW102", 1, 0, 0, 1, 0, "TAGS\x01a\x02")
    await asyncio.gather(*(channel.call(request, body) for body in bodies))


async def ask(channel: Channel, request: PopMessage) -> list[bytes]:
    answer = await channel.exchange(request.command(), timeout_ms=10_000)
    return [record.body for record in decode_records(bytes(answer.body))]


async def test_a_send_wakes_as_many_as_it_feeds(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await send(channel, b"first")
        assert await ask(channel, pop_of(0)) == [b"first"]
        waiting = [asyncio.ensure_future(ask(channel, pop_of(8_000, count=1))) for _ in range(3)]
        notice = asyncio.ensure_future(channel.call(Notification(GROUP, TOPIC, 0, 8_000, 0), timeout_ms=9_000))
        await asyncio.sleep(0)  # they are on their way, and this comes behind them
        assert (await channel.call(PollingInfo(GROUP, TOPIC, -1))).ext["pollingNum"] == "3"
        await send(channel, b"a", b"b")
        done, still = await asyncio.wait(waiting, timeout=1.0)
        assert sorted(body for one in done for body in one.result()) == [b"a", b"b"]
        await send(channel, b"c")
        assert [await one for one in still] == [[b"c"]]
        assert (await notice).ext["hasMsg"] == "true"


async def test_who_waits_in_vain_is_told_in_time(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await send(channel, b"first")
        await ask(channel, pop_of(0))
        answer = await channel.exchange(pop_of(200).command())
        assert (answer.code, answer.remark) == (ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE")


async def test_who_waits_is_answered_at_a_stop(broker: StartBroker) -> None:
    async with broker() as (running, channel):
        await send(channel, b"first")
        await ask(channel, pop_of(0))
        waiting = asyncio.ensure_future(channel.exchange(pop_of(60_000).command(), timeout_ms=9_000))
        await channel.call(PollingInfo(GROUP, TOPIC, -1))
        await running.stop()
        assert (await waiting).code == ResponseCode.POLLING_TIMEOUT


async def test_an_order_that_is_let_go_wakes_who_waits(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await send(channel, b"a", b"b")
        ordered = pop_of(8_000, count=1, queue_id=0)
        ordered.order, ordered.invisible_time = True, 300
        assert await ask(channel, ordered) == [b"a"]
        assert await ask(channel, ordered) == [b"a"]  # when its time was over, and not after 8 s
        peeked = await channel.exchange(PeekMessage(GROUP, TOPIC, 0, 32).command())
        assert len(list(decode_records(bytes(peeked.body)))) == 2


async def test_an_order_ends_with_its_topic(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await send(channel, b"a")
        ordered = pop_of(0, count=1, queue_id=0)
        ordered.order = True
        assert await ask(channel, ordered) == [b"a"]
        await channel.call(DeleteTopicInBroker(TOPIC))
        await send(channel, b"b")
        assert await ask(channel, ordered) == [b"b"]


async def test_a_reset_wakes_who_waits(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await send(channel, b"a", b"b")
        assert len(await ask(channel, pop_of(0))) == 2
        waiting = asyncio.ensure_future(ask(channel, pop_of(8_000)))
        await asyncio.sleep(0)
        request = ResetOffset(topic=TOPIC, group=GROUP, timestamp=-1, is_force=True, queue_id=0, offset=1)
        await channel.call(request)
        assert await waiting == [b"b"]


async def test_old_messages_are_popped_and_peeked_too(broker: StartBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of an earlier process are read in a thread, where the page cache has forgotten them."""
    monkeypatch.setattr(OsFs, "in_memory", lambda self, view: False)
    async with broker() as (_, channel):
        await send(channel, *(b"old %d" % number for number in range(40)))
    async with broker() as (_, channel):
        peeked = await channel.exchange(PeekMessage(GROUP, TOPIC, 0, 8).command())
        assert len(list(decode_records(bytes(peeked.body)))) == 8
        replies = await asyncio.gather(*(ask(channel, pop_of(0, count=16)) for _ in range(3)))
        found = [body for bodies in replies for body in bodies]
        assert sorted(found) == sorted(b"old %d" % number for number in range(40))
        by_tag = pop_of(0)
        by_tag.consumer_group, by_tag.exp, by_tag.exp_type = "others", "TAGS = 'a'", "SQL92"
        assert len(await ask(channel, by_tag)) == 32
        by_tag.exp, by_tag.exp_type = "b", "TAG"
        assert await ask(channel, by_tag) == []
