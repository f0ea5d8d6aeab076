"""Messages for any time on a real broker: when they come, what is refused, and calling them back."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from typing import Any

import pytest
from tests.conftest import StartBroker

from cometmq.broker.inner_messages import InnerMessage
from cometmq.broker.timer.delivery import make_ready
from cometmq.broker.timer.open_slots import Due, OpenSlot, Strip
from cometmq.broker.timer.stage import TIME_KEYS, TimerStage, deliver_time_ms, precision_ms
from cometmq.errors import RequestRefused
from cometmq.model import properties
from cometmq.model.names import TIMER_TOPIC
from cometmq.net.channel import Channel
from cometmq.store.config import StoreConfig
from cometmq.wire import fastjson
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.recall_handle import RecallHandle, handle_of
from cometmq.wire.record import Record, decode_record, decode_records, encode_record
from cometmq.wire.requests.consume import GetMaxOffset, PullMessage
from cometmq.wire.requests.send import SendMessageV2
from cometmq.wire.requests.timer import GetTimerCheckPoint, GetTimerMetrics, RecallMessage

GROUP, TOPIC = "timers", "orders"
NOW_MS = 1_700_000_000_500
LONG_MAX = (1 << 63) - 1


class StillClock:
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> int:
        return NOW_MS


def stage(*, enabled: bool = True, waiting: int = 0, **settings: Any) -> TimerStage:
    return TimerStage(
        StoreConfig(**settings),
        StillClock(),
        enabled=enabled,
        waiting_at=lambda slot_ms: waiting,
        on_recall=lambda key, slot_ms: None,
    )


def message(sys_flag: int = 0, topic: str = TOPIC, **found: object) -> InnerMessage:
    return InnerMessage(topic, 3, b"x", {key: str(value) for key, value in found.items()}, sys_flag=sys_flag)


# --- the stage


@pytest.mark.parametrize(
    ("found", "slot_ms"),
    [
        ({"TIMER_DELAY_SEC": 1}, NOW_MS + 500),
        ({"TIMER_DELAY_MS": 1}, NOW_MS - 500),
        ({"TIMER_DELAY_MS": 500}, NOW_MS - 500),
        ({"TIMER_DELAY_MS": 501}, NOW_MS + 500),
        ({"TIMER_DELIVER_MS": NOW_MS + 500}, NOW_MS - 500),
        ({"TIMER_DELIVER_MS": NOW_MS + 259_200_000}, NOW_MS + 259_199_500),
        ({"TIMER_DELAY_SEC": 1, "TIMER_DELAY_MS": 99_000, "TIMER_DELIVER_MS": "soon"}, NOW_MS + 500),
        ({"TIMER_DELAY_SEC": 1, "DELAY": 0}, NOW_MS + 500),
    ],
)
def test_a_message_for_the_future_waits(found: dict[str, Any], slot_ms: int) -> None:
    timed = message(**found)
    stage()(timed)
    assert (timed.topic, timed.queue_id) == (TIMER_TOPIC, 0)
    assert timed.properties[properties.TIMER_OUT_MS] == str(slot_ms)
    assert (timed.properties[properties.REAL_TOPIC], timed.properties[properties.REAL_QUEUE_ID]) == (TOPIC, "3")


@pytest.mark.parametrize(
    "plain",
    [
        message(TIMER_DELAY_SEC=0),
        message(TIMER_DELAY_MS=-1),
        message(TIMER_DELIVER_MS=NOW_MS),
        message(TIMER_DELAY_SEC=LONG_MAX),  # overflows to the past
        message(sys_flag=4, TIMER_DELAY_SEC=1),
        message(sys_flag=12, TIMER_DELAY_SEC=1),
        message(TIMER_DELAY_SEC=1, TIMER_OUT_MS=5),
        message(topic=TIMER_TOPIC, TIMER_DELAY_SEC=1),
    ],
)
def test_other_messages_go_where_they_were_going(plain: InnerMessage) -> None:
    before = (plain.topic, plain.queue_id, dict(plain.properties))
    stage()(plain)
    assert (plain.topic, plain.queue_id, plain.properties) == before


def test_a_delay_level_wins() -> None:
    both = message(TIMER_DELAY_SEC=9, TIMER_DELIVER_MS=1, DELAY=2)
    stage()(both)
    assert (both.topic, both.properties) == (TOPIC, {"DELAY": "2"})


@pytest.mark.parametrize(
    ("found", "settings", "response", "sentence"),
    [
        ({"TIMER_DELAY_SEC": 259_201}, {}, "MESSAGE_ILLEGAL", "max delay 259200000ms"),
        ({"TIMER_DELAY_SEC": "1.5"}, {}, "MESSAGE_ILLEGAL", "timer message illegal"),
        ({"TIMER_DELAY_MS": " 1"}, {}, "MESSAGE_ILLEGAL", "timer message illegal"),
        ({"TIMER_DELIVER_MS": LONG_MAX + 1}, {}, "MESSAGE_ILLEGAL", "timer message illegal"),
        ({"TIMER_DELAY_MS": "9" * 5_000}, {}, "MESSAGE_ILLEGAL", "timer message illegal"),
        ({"TIMER_DELAY_SEC": 0, "TIMER_DEL_UNIQKEY": "k"}, {}, "MESSAGE_ILLEGAL", "if set del msg"),
        ({"TIMER_DELAY_SEC": 1}, {"enabled": False}, "SYSTEM_ERROR", "timerWheelEnable is false"),
        ({"TIMER_DELAY_SEC": 1}, {"waiting": 20, "timer_congest_num_each_slot": 10}, "SYSTEM_ERROR", "flow control"),
    ],
)
def test_what_is_refused(found: dict[str, Any], settings: dict[str, Any], response: str, sentence: str) -> None:
    refused = message(**found)
    with pytest.raises(RequestRefused, match=sentence) as raised:
        stage(**settings)(refused)
    assert raised.value.response == response
    assert refused.topic == TOPIC


def test_precisions() -> None:
    assert [precision_ms(wanted) for wanted in (1, 100, 199, 200, 700, 1000, 5000)] == [
        100, 100, 100, 200, 500, 1000, 1000,
    ]  # fmt: skip
    assert deliver_time_ms({}, NOW_MS) is None
    assert set(TIME_KEYS) == {"TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"}


# --- open slots


def test_strips_are_taken_at_their_end_in_the_logs_order() -> None:
    slot = OpenSlot(10_000, 1000)
    dues = {1: 10_001, 2: 10_050, 3: 10_051, 4: 11_000, 5: 0, 6: 9_000, 7: 99_000}
    for number, due_ms in dues.items():
        slot.add(due_ms, Due(number, 1, number, 1, 0))

    def due(now_ms: int) -> list[list[int]]:
        return [[one.pos for one in strip.first(9)] for strip in slot.due(now_ms)]

    assert due(10_049) == []
    assert slot.next_ms() == 10_050
    assert due(10_050) == [[1, 2, 6]]
    assert due(20_000) == [[1, 2, 6], [3], [4, 5, 7]]
    assert slot.waiting() == [1, 2, 3, 4, 5, 6, 7]
    first = next(slot.due(20_000))
    first.made(2, [])
    assert due(10_050) == [[6]]
    for strip in slot.due(20_000):
        strip.made(9, [])
    assert slot.done(20_000)
    assert not slot.done(10_999)
    assert slot.next_ms() == slot.end_ms


def cpu_s_of_taking(count: int) -> float:
    """CPU time that it takes to make ready so many that are due at one moment, a chunk at a time."""
    strip = Strip()
    for number in range(count, 0, -1):
        strip.add(Due(number, 1, number, 1, 0))
    strip.turn_round()
    taken = []
    began = time.process_time()
    while strip.is_waiting:
        dues = strip.first(200)
        taken.append(dues[0].pos)
        strip.made(len(dues), [])
    took = time.process_time() - began
    assert taken == list(range(1, count + 1, 200))
    return took


def test_many_that_are_due_at_one_moment_are_taken_at_a_price_each() -> None:
    few, many = min(cpu_s_of_taking(10_000) for _ in range(3)), min(cpu_s_of_taking(400_000) for _ in range(2))
    assert many < 120 * few  # forty times as many; several hundred times the work if the rest were moved each time


def test_what_is_left_of_a_strip_is_known() -> None:
    slot = OpenSlot(10_000, 1000)
    for number in (3, 2, 1):
        slot.add(10_001, Due(number, 1, number, 1, 0))
    slot.markers.extend((9, 8))
    slot.turn_round()
    (strip,) = slot.due(20_000)
    strip.made(1, [])
    assert [due.pos for due in strip.first(9)] == [2, 3]
    assert slot.markers == [8, 9]
    assert slot.waiting() == [2, 3, 8, 9]


# --- recall handles


def test_a_handle_is_read_back() -> None:
    handle = RecallHandle("orders", "broker-a", NOW_MS, "key")
    assert RecallHandle.decode(handle.encode()) == handle
    assert RecallHandle.decode(handle.encode().rstrip("=")) == handle
    found = {"TIMER_OUT_MS": str(NOW_MS - 1), "REAL_TOPIC": "orders", "UNIQ_KEY": "key"}
    assert handle_of(found, "broker-a") == handle.encode()
    assert handle_of({**found, "REAL_TOPIC": "%RETRY%group"}, "broker-a") is None
    assert handle_of({"UNIQ_KEY": "key"}, "broker-a") is None


@pytest.mark.parametrize("text", [None, "", "&", "a", "dj+/", "djEg=", "djEg===", "djEgYSBiIDE", "w6k="])
def test_a_handle_that_is_none_is_refused(text: str | None) -> None:
    with pytest.raises(RequestRefused, match="recall handle is invalid"):
        RecallHandle.decode(text)


# --- the broker


async def send(channel: Channel, name: str, topic: str = TOPIC, **found: object) -> Command:
    text = properties.render({"UNIQ_KEY": name, **{key: str(value) for key, value in found.items()}})
    request = SendMessageV2(GROUP, topic, "TBW102", 4, 0, 0, 0, 0, properties=text)
    return await channel.exchange(request.command(name.encode()))


async def delivered(channel: Channel, count: int) -> list[Record]:
    async with asyncio.timeout(30):
        while int((await channel.call(GetMaxOffset(TOPIC, 0))).ext["offset"]) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    answer = await channel.call(PullMessage(GROUP, TOPIC, 0, 0, 32, 4, 0, 0, 0, subscription="*"))
    return list(decode_records(bytes(answer.body), check_crc=True))


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_messages_come_at_their_time_and_in_its_order(broker: StartBroker, flush: str) -> None:
    async with broker(flushDiskType=flush) as (_, channel):
        now_ms = int(time.time() * 1000)
        due_ms = {"last": now_ms + 1_200, "second": now_ms + 700, "first": now_ms + 300}
        for name, at_ms in due_ms.items():
            assert (await send(channel, name, TIMER_DELIVER_MS=at_ms)).code == ResponseCode.SUCCESS
        found = await delivered(channel, 3)
        assert [record.body.decode() for record in found] == ["first", "second", "last"]
        for record in found:
            at_ms = due_ms[record.body.decode()]
            assert at_ms <= record.store_time_ms
            assert at_ms <= int(record.properties["TIMER_DEQUEUE_MS"])
            assert record.properties["REAL_TOPIC"] == TOPIC
            assert record.properties["TIMER_ENQUEUE_MS"].isdecimal()


async def test_a_broker_that_starts_again_delivers_what_waits(broker: StartBroker) -> None:
    due_ms = int(time.time() * 1000) + 1_500
    async with broker() as (_, channel):
        await send(channel, "m", TIMER_DELIVER_MS=due_ms)
        assert int((await channel.call(GetMaxOffset(TOPIC, 0))).ext["offset"]) == 0
    async with broker() as (_, channel):
        found = await delivered(channel, 1)
        assert found[0].store_time_ms >= due_ms
    async with broker() as (_, channel):
        assert len(await delivered(channel, 1)) == 1


async def test_a_recalled_message_does_not_come(broker: StartBroker) -> None:
    async with broker(recallMessageEnable="true") as (_, channel):
        far_ms = int(time.time() * 1000) + 2_200
        sent = await send(channel, "recalled", TIMER_DELIVER_MS=far_ms)
        await send(channel, "kept", TIMER_DELIVER_MS=far_ms)
        answer = await channel.call(RecallMessage(GROUP, TOPIC, sent.ext["recallHandle"]))
        assert answer.ext["msgId"] == "recalled"
        assert answer.ext["MSG_REGION"] == "DefaultRegion"
        await send(channel, "after", TIMER_DELIVER_MS=far_ms + 300)
        assert [record.body for record in await delivered(channel, 2)] == [b"kept", b"after"]


@pytest.mark.parametrize(
    ("topic", "handle", "code"),
    [
        (None, "x", ResponseCode.SYSTEM_ERROR),
        ("absent", "x", ResponseCode.TOPIC_NOT_EXIST),
        (TOPIC, None, ResponseCode.ILLEGAL_OPERATION),
        (TOPIC, "&", ResponseCode.ILLEGAL_OPERATION),
        (TOPIC, RecallHandle("other", "broker-a", 1, "k").encode(), ResponseCode.ILLEGAL_OPERATION),
        (TOPIC, RecallHandle(TOPIC, "broker-b", 1, "k").encode(), ResponseCode.ILLEGAL_OPERATION),
        (TOPIC, RecallHandle(TOPIC, "broker-a", 1, "k").encode(), ResponseCode.ILLEGAL_OPERATION),
        (TOPIC, RecallHandle(TOPIC, "broker-a", 1 << 60, "k").encode(), ResponseCode.ILLEGAL_OPERATION),
        (TOPIC, "ICAg", ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_recalls_that_are_refused(
    broker: StartBroker, topic: str | None, handle: str | None, code: ResponseCode
) -> None:
    async with broker(recallMessageEnable="true") as (_, channel):
        await send(channel, "plain")
        answer = await channel.exchange(RecallMessage(GROUP, topic, handle).command())
        assert answer.code == code
        assert int((await channel.call(GetMaxOffset(TIMER_TOPIC, 0))).ext["offset"]) == 0


async def test_recalls_are_forbidden_unless_allowed(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        answer = await channel.exchange(RecallMessage(GROUP, TOPIC, "x").command())
        assert answer.code == ResponseCode.NO_PERMISSION


async def test_counts_and_progress(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await send(channel, "m", TIMER_DELAY_SEC=3_600)
        async with asyncio.timeout(10):
            while True:
                metrics: Any = fastjson.loads(bytes((await channel.call(GetTimerMetrics())).body))
                if metrics["timingCount"].get(TOPIC, {}).get("count") == 1:
                    break
                await asyncio.sleep(0.01)
        assert len((await channel.call(GetTimerCheckPoint())).body) == 56


async def test_without_the_wheel(broker: StartBroker) -> None:
    async with broker(timerWheelEnable="false") as (_, channel):
        assert (await send(channel, "m", TIMER_DELAY_SEC=1)).code == ResponseCode.SYSTEM_ERROR
        assert (await channel.exchange(GetTimerCheckPoint().command())).code == ResponseCode.SYSTEM_ERROR
        assert (await channel.exchange(GetTimerMetrics().command())).code == ResponseCode.SYSTEM_ERROR


async def test_what_has_no_time_in_the_timer_topic_is_passed_over(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await send(channel, "stray", topic=TIMER_TOPIC)
        await send(channel, "m", TIMER_DELAY_MS=100)
        assert [record.body for record in await delivered(channel, 1)] == [b"m"]


async def test_properties_without_room_for_ours_are_delivered_as_they_were(broker: StartBroker) -> None:
    """Accepted is accepted: what Java and we add on the way must not cost the message."""
    async with broker() as (_, channel):
        text, sizes = "", range(properties.PROPERTIES_SIZE_MAX, 32_000, -1)
        for size in sizes:  # the largest that the timer topic takes
            text = "x" * size
            if (await send(channel, "full", TIMER_DELAY_MS=300, user=text)).code == ResponseCode.SUCCESS:
                break
        await send(channel, "next", TIMER_DELAY_MS=300)
        found = await delivered(channel, 2)
        assert [record.body for record in found] == [b"full", b"next"]
        assert found[0].properties["user"] == text


# --- what is ready


def waiting(number: int, body_size: int, **found: object) -> bytes:
    """The record of a message that waits for its time."""
    wanted = {
        properties.REAL_TOPIC: "a-topic-of-some-length",
        properties.REAL_QUEUE_ID: 3,
        properties.TIMER_OUT_MS: NOW_MS,
        properties.UNIQ_KEY: f"7F00000100002A139A5C1D5E8E{number:06}",
        properties.TAGS: "paid",
        **found,
    }
    return encode_record(
        topic=TIMER_TOPIC.encode(),
        queue_id=0,
        flag=9,
        queue_offset=number,
        physical_offset=1_000_000_000 + number,
        sys_flag=0,
        born_time_ms=NOW_MS - number,
        born_host=bytes(8),
        store_time_ms=NOW_MS,
        store_host=bytes(8),
        reconsume_times=2,
        body=bytes(body_size),
        properties_data=properties.render({key: str(value) for key, value in wanted.items()}).encode(),
    )


@pytest.mark.parametrize("body_size", [0, 100, 4_096])
def test_what_is_ready_takes_no_more_memory_than_is_counted(body_size: int) -> None:
    records = [waiting(number, body_size) for number in range(500)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        ready = [
            make_ready(decode_record(data), 10_000 + number, NOW_MS - 1_000 - number, roll=False, with_topic=True)
            for number, data in enumerate(records)
        ]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    counted = sum(one.memory_size for one in ready if one is not None)
    assert counted * 0.7 < after - before < counted


@pytest.mark.parametrize("roll", [False, True])
def test_what_is_ready_can_still_be_changed(roll: bool) -> None:
    record = decode_record(waiting(1, 5, KEYS="k"))
    one = make_ready(record, 0, NOW_MS, roll=roll, with_topic=False)
    assert one is not None
    message = one.message()
    where = (TIMER_TOPIC, 0) if roll else ("a-topic-of-some-length", 3)
    assert (message.topic, message.queue_id, message.body) == (*where, bytes(5))
    assert (message.flag, message.born_time_ms, message.reconsume_times) == (9, NOW_MS - 1, 2)
    assert record.properties.items() <= message.properties.items()
    assert set(message.properties) - set(record.properties) == {
        properties.TIMER_ENQUEUE_MS,
        properties.DELIVERED_MARK,
        *([properties.TIMER_ROLL_TIMES] if roll else []),
    }
