"""A broker process is killed again and again while messages are popped: every one is handed out until it is done."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire import fastjson
from cometmq.wire.command import Command
from cometmq.wire.record import decode_records
from cometmq.wire.requests.pop import AckMessage, PopMessage
from cometmq.wire.requests.send import SendMessageV2

from .harness.warm import WarmBroker

COUNT, KILLS = 400, 3
TOPIC, GROUP = "orders", "readers"
SAVE_EVERY_MS = 200

pytestmark = pytest.mark.timeout(120)


async def send_all(channel: Channel) -> None:
    async def send(number: int) -> None:
        request = SendMessageV2(GROUP, TOPIC, "TBW102", 4, number % 4, 0, 0, 0, properties="TAGS\x01a\x02")
        await channel.call(request, b"m%d" % number, timeout_ms=30_000)

    await asyncio.gather(*(send(number) for number in range(COUNT)))


async def pop(channel: Channel, count: int, invisible_ms: int, poll_ms: int = 0) -> Command:
    request = PopMessage(GROUP, TOPIC, -1, count, invisible_ms, poll_ms, 0, 0)
    return await channel.exchange(request.command(), timeout_ms=30_000)


async def ack_some(channel: Channel, reply: Command, *, every: int) -> list[bytes]:
    """Acknowledge each `every`-th message of a reply; returns those that the broker has taken."""
    starts = {
        tuple(part.split(" ")[:2]): part.split(" ")[2] for part in reply.ext["startOffsetInfo"].split(";") if part
    }
    done = []
    for number, record in enumerate(decode_records(bytes(reply.body), check_crc=True)):
        if number % every:
            continue
        topic, receipt = TOPIC, record.properties.get("POP_CK")
        if receipt is None:
            ext = reply.ext
            start = starts["0", str(record.queue_id)]
            receipt = (
                f"{start} {ext['popTime']} {ext['invisibleTime']} {ext['reviveQid']} 0 broker-a {record.queue_id} 0"
            )
        else:
            topic = f"%RETRY%{GROUP}_{TOPIC}"
        request = AckMessage(topic, GROUP, record.queue_id, receipt, record.queue_offset)
        await channel.call(request, timeout_ms=30_000)
        done.append(record.body)
    return done


def saved_offsets(store: Path) -> dict[str, int]:
    try:
        table = fastjson.loads((store / "config" / "consumerOffset.json").read_bytes())["offsetTable"]
    except (OSError, KeyError):
        return {}
    return dict(table.get(f"{TOPIC}@{GROUP}", {}))


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_kills_while_messages_are_popped(tmp_path: Path, flush: str) -> None:
    done: Counter[bytes] = Counter()
    conf = {"flushConsumerOffsetInterval": SAVE_EVERY_MS}
    with WarmBroker(tmp_path, [], flush=flush, conf=conf) as broker:
        channel = await connect(broker.addr)
        await send_all(channel)
        for _ in range(KILLS):
            for _ in range(6):
                reply = await pop(channel, 16, 2_000)
                if not reply.code:
                    done.update(await ack_some(channel, reply, every=2))
            channel.close()
            broker.kill()
            broker.start()
            channel = await connect(broker.addr)
        async with asyncio.timeout(60):
            while len(done) < COUNT:
                reply = await pop(channel, 32, 30_000, poll_ms=500)
                if not reply.code:
                    done.update(await ack_some(channel, reply, every=1))
        # What was handed out before the offset was saved may come once more after a kill, and nothing else.
        assert sum(count - 1 for count in done.values()) <= KILLS * 6 * 16
        await asyncio.sleep(2 * SAVE_EVERY_MS / 1000)
        assert sum(saved_offsets(Path(broker.store)).values()) == COUNT
        channel.close()
        broker.kill()
