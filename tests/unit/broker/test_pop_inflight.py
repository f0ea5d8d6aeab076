"""A group that holds too many messages of a queue gets no more of it until some are done or have come back."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.conftest import StartBroker

from cometmq.net.channel import Channel
from cometmq.wire.bodies.acks import BatchAck, BatchAcks, bit_set
from cometmq.wire.command import Command
from cometmq.wire.record import decode_records
from cometmq.wire.requests.pop import AckMessage, BatchAckMessage, PollingInfo, PopMessage
from cometmq.wire.requests.send import SendMessageV2

from .pop_kit import GROUP, TOPIC, Handed, PopKit, names

COME_BACK_MS = 4_000  # after their invisible time, at the latest


async def kit_with(path: Path, count: int, most: int = 2, **config: object) -> PopKit:
    """Messages `0`, `1` … in queue 0, of which a group may hold `most` and still pop."""
    kit = PopKit(path, enable_pop_message_threshold=True, pop_inflight_message_threshold=most, **config)
    await kit.start()
    for number in range(count):
        kit.send(str(number))
    return kit


def rest_of(reply: Command | None) -> int:
    assert reply is not None
    return int(reply.ext["restNum"])


def batch_of(kit: PopKit, handed: list[Handed]) -> bytes:
    start, pop_time, invisible, revive_queue = map(int, handed[0].receipt.split(" ")[:4])
    bits = bit_set(one.offset - start for one in handed)
    ack = BatchAck(GROUP, TOPIC, "0", start, handed[0].queue_id, revive_queue, pop_time, invisible, bits)
    return BatchAcks(kit.config.broker_name, [ack]).encode()


async def test_who_holds_too_many_gets_no_more(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, 6)
    handed = kit.pop(max_msg_nums=2)
    handed += kit.pop(max_msg_nums=1)  # two are as many as it may hold, and still pop
    refused = kit.pop_reply()
    assert (rest_of(refused), kit.pop()) == (3, [])
    assert names(kit.pop(consumer_group="others")) == [str(n) for n in range(6)]
    kit.ack(handed[0])
    assert names(kit.pop(max_msg_nums=1)) == ["3"]
    kit.let_go()


async def test_other_queues_are_counted_alone(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, 3)
    kit.send("beside", queue_id=1)
    assert len(kit.pop(queue_id=0)) == 3
    kit.send("more")
    assert names(kit.pop()) == ["beside"]
    kit.let_go()


async def test_a_batch_counts_all_its_messages(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, 6, most=1)
    handed = kit.pop(max_msg_nums=4)
    assert kit.pop() == []
    kit.ask(BatchAckMessage(), batch_of(kit, handed[:2]))
    assert kit.pop() == []
    kit.ask(BatchAckMessage(), batch_of(kit, handed[2:3]))
    assert names(kit.pop()) == ["4", "5"]
    kit.let_go()


async def test_what_comes_back_is_held_no_more(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, 6)
    handed = kit.pop(max_msg_nums=3, invisible_time=5_000)
    _, longer = kit.change(handed[0], 60_000)
    assert kit.pop() == [], "more time is not done"
    await kit.pass_time(5_000 + COME_BACK_MS)
    assert names(kit.pop()) == ["1", "2", "3", "4", "5"]
    assert kit.pop() == []
    kit.ack(longer)
    kit.let_go()


async def test_a_reset_and_a_new_start_count_anew(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, 4)
    handed = kit.pop(max_msg_nums=3, invisible_time=600_000)
    assert kit.pop() == []
    kit.offsets.assign_reset(GROUP, TOPIC, 0, 1)
    kit.clock.ms += 1
    assert names(kit.pop(invisible_time=600_000)) == ["1", "2", "3"]
    await kit.save()
    await kit.kill()
    kit.clock.ms += 1
    for number in range(4, 8):
        kit.send(str(number))
    assert names(kit.pop(invisible_time=600_000)) == ["4", "5", "6", "7"]
    for one in handed:  # of before the start: they free nothing
        kit.ack(one)
    kit.send("8")
    assert kit.pop() == []
    kit.let_go()


async def test_a_group_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, 4)
    assert len(kit.pop(max_msg_nums=3)) == 3
    kit.offsets.remove_group(GROUP)
    assert len(kit.pop()) == 4
    kit.let_go()


async def test_order_is_bounded_by_its_lock_alone(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, 4, most=1)
    assert len(kit.pop(order=True, max_msg_nums=3, invisible_time=1_000)) == 3
    kit.clock.ms += 2_000
    assert len(kit.pop(order=True, max_msg_nums=3)) == 3
    kit.let_go()


async def test_who_waits_is_told_when_some_are_done(broker: StartBroker) -> None:
    """And sleeps until then, although there is a rest."""
    async with broker(enablePopMessageThreshold="true", popInflightMessageThreshold="0") as (_, channel):
        await send(channel, b"a")
        await send(channel, b"b")
        first = await channel.exchange(pop_of(0).command())
        receipt = " ".join(
            (*(first.ext[name] for name in ("popTime", "invisibleTime", "reviveQid")), "0", "broker-a", "0", "0")
        )
        waiting = asyncio.ensure_future(channel.exchange(pop_of(8_000).command(), timeout_ms=9_000))
        await asyncio.sleep(0)  # it is on its way, and what follows comes behind it
        for _ in range(3):
            assert (await channel.call(PollingInfo(GROUP, TOPIC, 0))).ext["pollingNum"] == "1"
        await channel.call(AckMessage(TOPIC, GROUP, 0, f"0 {receipt}", 0))
        assert [record.body for record in decode_records(bytes((await waiting).body))] == [b"b"]


async def send(channel: Channel, body: bytes) -> None:
    await channel.call(SendMessageV2("producers", TOPIC, "TBW102", 1, 0, 0, 1, 0, ""), body)


def pop_of(poll_ms: int) -> PopMessage:
    return PopMessage(
        consumer_group=GROUP,
        topic=TOPIC,
        queue_id=0,
        max_msg_nums=1,
        invisible_time=30_000,
        poll_time=poll_ms,
        born_time=0,
        init_mode=0,
    )
