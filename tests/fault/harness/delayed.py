"""Messages for later that are under way while the broker ends: the next one brings each once, and none early."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Final

from cometmq.errors import ProtocolError
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire import fastjson
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import Record, decode_records
from cometmq.wire.requests.consume import PullMessage
from cometmq.wire.requests.send import SendMessageV2

TOPIC: Final = "later"
DELAY_MS: Final = 4_000  # longer than it takes to send and to kill, so that nothing has arrived by then
CONF: Final[dict[str, object]] = {"messageDelayLevel": f"{DELAY_MS // 1000}s", "flushDelayOffsetInterval": 200}
EARLY_MS: Final = 1_000  # the original's own tolerance
AWAIT_S: Final = 30.0
TIMEOUT_MS: Final = 30_000


class Delayed:
    """What was sent for later, over the deaths of brokers."""

    def __init__(self, store: Path) -> None:
        self._progress = store / "config" / "delayOffset.json"
        self._sent_ms: dict[str, float] = {}

    @property
    def count(self) -> int:
        return len(self._sent_ms)

    async def send(self, address: str, count: int) -> None:
        channel = await connect(address, timeout_ms=TIMEOUT_MS)
        for number in range(self.count, self.count + count):
            name = f"later{number}"
            text = f"UNIQ_KEY\x01{name}\x02DELAY\x011\x02"
            self._sent_ms[name] = time.time() * 1000
            await channel.call(
                SendMessageV2("senders", TOPIC, "TBW102", 1, 0, 0, 0, 0, text), name.encode(), timeout_ms=TIMEOUT_MS
            )
        channel.close()

    async def check(self, address: str) -> list[str]:
        """What is wrong with what has arrived, once all should have."""
        channel = await connect(address, timeout_ms=TIMEOUT_MS)
        deadline = time.monotonic() + AWAIT_S
        while len(found := await _arrived(channel)) < self.count and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        channel.close()
        return self.judge(found)

    def judge(self, found: list[Record]) -> list[str]:
        """What is wrong if this is all that has arrived."""
        times = Counter(record.body.decode() for record in found)
        faults = [f"{name} arrived {times[name]} times" for name in self._sent_ms if times[name] != 1]
        faults += [f"{name} was never sent" for name in times if name not in self._sent_ms]
        return faults + [
            f"{name} arrived after {record.store_time_ms - self._sent_ms[name]:.0f} ms"
            for record in found
            if (name := record.body.decode()) in self._sent_ms
            and record.store_time_ms < self._sent_ms[name] + DELAY_MS - EARLY_MS
        ]

    async def await_noted(self) -> None:
        """Until the broker has saved that all have arrived: the original would bring them again after a kill."""
        deadline = time.monotonic() + AWAIT_S
        while self._noted() != self.count:
            assert time.monotonic() < deadline, f"{self._noted()} of {self.count} are noted as delivered"
            await asyncio.sleep(0.05)

    def _noted(self) -> int:
        """How far the file says that delivery is."""
        try:
            table = fastjson.loads(self._progress.read_bytes())["offsetTable"]
        except (OSError, ProtocolError):  # not there yet, or just being written
            return 0
        return int(table.get("1", 0))


async def _arrived(channel: Channel) -> list[Record]:
    found: list[Record] = []
    while True:
        pull = PullMessage("readers", TOPIC, 0, len(found), 32, 4, 0, 0, 0, subscription="*")
        answer = await channel.exchange(pull.command(), timeout_ms=TIMEOUT_MS)
        if answer.code != ResponseCode.SUCCESS:
            return found
        found += decode_records(bytes(answer.body), check_crc=True)
