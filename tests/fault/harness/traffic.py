"""Senders and a reader on a broker process, with the ledger beside them.

Messages are sent in small bursts, many in flight, each once: one that is not answered stays open in the ledger. The
reader follows the queues from where it stopped, so that it notes what a consumer has seen before the broker died.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from cometmq.errors import CometError, PeerError, PeerRefused
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import decode_records
from cometmq.wire.requests.consume import GetMaxOffset, GetMinOffset, PullMessage
from cometmq.wire.requests.send import SendMessageV2

from .ledger import Found, Ledger, Queue, digest_of

TOPIC: Final = "faults"
QUEUES: Final = 4
BURST: Final = 10
BURST_EVERY_S: Final = 0.01  # 1,000 messages a second, if the broker follows
IN_FLIGHT_MAX: Final = 400
TIMEOUT_MS: Final = 30_000
GROWS_WITHIN_S: Final = 120
PULL_WITH_SUBSCRIPTION: Final = 4
STORED: Final = (ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT, ResponseCode.SLAVE_NOT_AVAILABLE)


class NothingServed(CometError):
    """A queue has messages that cannot be read."""


class Traffic:
    """What goes to a broker and comes from it, over its deaths."""

    def __init__(
        self, ledger: Ledger, topic: str = TOPIC, *, size: int = 300, in_flight_max: int = IN_FLIGHT_MAX
    ) -> None:
        self.ledger = ledger
        self.topic = topic
        self.size = size
        self.in_flight_max = in_flight_max
        self.queues: list[Queue] = [(topic, queue_id) for queue_id in range(QUEUES)]
        self.violations: list[str] = []
        self.sent = self.acknowledged = 0
        self.sending_s = 0.0
        self.refusals: dict[int, int] = {}  # by code
        self.remarks: Counter[str] = Counter()  # of refusals
        self.statuses: dict[int, int] = {}
        self._seen: dict[Queue, int] = dict.fromkeys(self.queues, 0)

    @asynccontextmanager
    async def flowing(self, address: str) -> AsyncIterator[None]:
        """Send and read until the block ends, or the broker does."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._send(address)), group.create_task(self._read(address))]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def _send(self, address: str) -> None:
        began = time.monotonic()
        under_way: set[asyncio.Task[None]] = set()
        try:
            with contextlib.suppress(PeerError):
                channel = await connect(address, timeout_ms=TIMEOUT_MS)
                while channel.is_open:
                    for _ in range(min(BURST, self.in_flight_max)):
                        task = asyncio.ensure_future(self.send(channel))
                        under_way.add(task)
                        task.add_done_callback(under_way.discard)
                    await asyncio.sleep(BURST_EVERY_S)
                    while len(under_way) >= self.in_flight_max and channel.is_open:
                        await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.sending_s += time.monotonic() - began
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def send(self, channel: Channel, size: int = 0) -> int:
        """Send one message; the answer's code, or -1 if none came."""
        queue = self.queues[self.sent % QUEUES]
        name = f"m{self.sent}"
        self.sent += 1
        body = name.encode().ljust(size or self.size, b".")
        self.ledger.send(queue, name, body)
        request = SendMessageV2("senders", queue[0], "TBW102", QUEUES, queue[1], 0, 0, 0, f"UNIQ_KEY\x01{name}\x02")
        try:
            answer = await channel.exchange(request.command(body), timeout_ms=TIMEOUT_MS)
        except PeerError:
            return -1
        code = int(answer.code)
        if code == ResponseCode.SUCCESS or code in STORED:
            self.acknowledged += code == ResponseCode.SUCCESS
            self.statuses[code] = self.statuses.get(code, 0) + 1
            self.violations += self.ledger.acknowledge(name, code, int(answer.ext["queueOffset"]))
        else:
            self.refusals[code] = self.refusals.get(code, 0) + 1
            self.remarks[answer.remark or ""] += 1
        return code

    async def _read(self, address: str) -> None:
        with contextlib.suppress(PeerError):
            channel = await connect(address, timeout_ms=TIMEOUT_MS)
            while channel.is_open:
                for queue in self.queues:
                    found = await pull(channel, queue, self._seen[queue])
                    self.violations += self.ledger.see(queue, found)
                    self._seen[queue] += len(found)
                await asyncio.sleep(BURST_EVERY_S)

    async def check(self, address: str, *, whole: bool = True, expired: bool = False) -> list[str]:
        """What is wrong with what the broker serves now; `whole` asks for all of it, not only for what is new.

        `expired` says that the oldest may be gone by the broker's own will, though never everything.
        """
        channel = await connect(address, timeout_ms=TIMEOUT_MS)
        try:
            starts = {queue: 0 if whole else max(self._seen[queue] - 64, 0) for queue in self.queues}
            if expired:
                starts = {queue: await min_offset(channel, queue) for queue in self.queues}
            found = {queue: await read_queue(channel, queue, starts[queue]) for queue in self.queues}
        finally:
            channel.close()
        for queue, messages in found.items():
            self.violations += self.ledger.see(queue, messages)
            self._seen[queue] = starts[queue] + len(messages)
        faults, self.violations = self.violations + self.ledger.check(found, from_offsets=starts), []
        if expired and self.acknowledged and not any(found.values()):
            faults.append(f"of {self.acknowledged} acknowledged messages none is left")
        return faults

    async def grows(self) -> None:
        """Until something more is acknowledged: by a master that waits for its slave, when that has it, too."""
        before = self.acknowledged
        async with asyncio.timeout(GROWS_WITHIN_S):
            while self.acknowledged == before:  # noqa: ASYNC110 (another process has no event)
                await asyncio.sleep(0.01)

    @property
    def rate(self) -> float:
        """Messages acknowledged a second, while there was someone to send to."""
        return self.acknowledged / self.sending_s if self.sending_s else 0.0


async def pull(channel: Channel, queue: Queue, offset: int) -> list[Found]:
    """Up to 32 messages; none where there are none, or the topic is not there yet."""
    return (await ask_for(channel, queue, offset))[1]


async def ask_for(channel: Channel, queue: Queue, offset: int) -> tuple[int, list[Found]]:
    """The answer's code, and up to 32 messages."""
    request = PullMessage("readers", *queue, offset, 32, PULL_WITH_SUBSCRIPTION, 0, 0, 0, subscription="*")
    answer = await channel.exchange(request.command(), timeout_ms=TIMEOUT_MS)
    if answer.code != ResponseCode.SUCCESS:
        return int(answer.code), []
    return 0, [
        Found(record.queue_offset, record.body.split(b".")[0].decode(errors="replace"), digest_of(record.body))
        for record in decode_records(bytes(answer.body), check_crc=True)
    ]


async def min_offset(channel: Channel, queue: Queue) -> int:
    """Of the first message; 0 where the topic was never made."""
    try:
        return int((await channel.call(GetMinOffset(*queue), timeout_ms=TIMEOUT_MS)).ext["offset"])
    except PeerRefused:
        return 0


async def read_queue(channel: Channel, queue: Queue, offset: int) -> list[Found]:
    """Everything visible from `offset` on."""
    try:
        end = int((await channel.call(GetMaxOffset(*queue), timeout_ms=TIMEOUT_MS)).ext["offset"])
    except PeerRefused:
        return []  # the topic was never made
    found: list[Found] = []
    offset = max(offset, await min_offset(channel, queue))
    while offset < end:
        more = await pull(channel, queue, offset)
        if not more:
            raise NothingServed(f"{queue} ends at {end}, but nothing is served at {offset}")
        found += more
        offset = more[-1].offset + 1
    return found
