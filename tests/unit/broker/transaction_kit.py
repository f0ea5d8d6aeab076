"""A producer of transactions in a few lines, and a kill: a copy of the store as it is while the broker runs."""

from __future__ import annotations

import asyncio
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.bodies.heartbeat import HeartbeatData
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.record import Record, decode_records
from cometmq.wire.requests.consume import PullMessage
from cometmq.wire.requests.members import HeartBeat
from cometmq.wire.requests.send import SendMessageV2
from cometmq.wire.requests.transaction import CheckTransactionState, EndTransaction

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
GROUP, TOPIC = "traders", "orders"
OLD_MS = 60_000
"""Born so long ago, a half message is due for its check."""
HELD_MAX = 2_000
"""Checks that wait for their answers; Java's producer has room for as many (checkRequestHoldMax)."""


@dataclass(frozen=True)
class Begun:
    """Where a half message stands."""

    key: str
    physical_offset: int
    half_offset: int

    def end(self, verdict: int, *, group: str = GROUP, checked: bool = False) -> EndTransaction:
        return EndTransaction(
            tran_state_table_offset=self.half_offset,
            commit_log_offset=self.physical_offset,
            commit_or_rollback=verdict,
            producer_group=group,
            from_transaction_check=checked,
            msg_id=self.key,
        )


async def begin(channel: Channel, key: str, *, age_ms: int = 0, more: str = "", topic: str = TOPIC) -> Begun:
    """Send a half message; its body is its key."""
    text = f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02UNIQ_KEY\x01{key}\x02{more}"
    born_ms = int(time.time() * 1000) - age_ms
    answer = await channel.call(
        SendMessageV2(GROUP, topic, "TBW102", 4, 0, 0, born_ms, 3, properties=text), key.encode()
    )
    assert answer.ext["transactionId"] == key
    return Begun(key, int(answer.ext["msgId"][-16:], 16), int(answer.ext["queueOffset"]))


def checked(command: Command) -> Begun:
    """What a check asks about."""
    request = CheckTransactionState.read(command.ext)
    return Begun(request.msg_id or "", request.commit_log_offset, request.tran_state_table_offset)


async def producer(
    address: str, client_id: str = "one", held_max: int = HELD_MAX
) -> tuple[Channel, asyncio.Queue[Command]]:
    """A member of the producer group, and the checks that it is sent; what it has no room for will be asked again."""
    asked: asyncio.Queue[Command] = asyncio.Queue(held_max)

    def hold(_: Channel, command: Command) -> None:
        with suppress(asyncio.QueueFull):
            asked.put_nowait(command)

    channel = await connect(address, on_request=hold)
    await channel.call(HeartBeat(), HeartbeatData(client_id, [GROUP], []).encode())
    return channel, asked


async def stored(channel: Channel, topic: str = TOPIC) -> list[Record]:
    """Everything that consumers can see of a topic's first queue."""
    records: list[Record] = []
    while True:
        pull = PullMessage("g", topic, 0, len(records), 32, 4, 0, 0, 0, subscription="*")
        answer = await channel.exchange(pull.command())
        if answer.code != ResponseCode.SUCCESS:
            return records
        records.extend(decode_records(answer.body))


async def bodies(channel: Channel, count: int, topic: str = TOPIC) -> list[str]:
    """The bodies of a topic, once there are so many; a moment more shows whether there are too many."""
    for _ in range(500):
        found = await stored(channel, topic)
        if len(found) >= count:
            break
        await asyncio.sleep(0.01)
    return [record.body.decode() for record in found]


def killed(store: Path, copy: Path) -> str:
    """What would be left of the store if its broker were killed now."""
    shutil.copytree(store, copy)
    return str(copy)
