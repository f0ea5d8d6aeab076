"""Pops under way for one subscription: at most one per broker, what they bring waits here until the program takes it.

A pop that has left goes on although the program stopped waiting, since the broker may have handed messages to it
already; they are there for the next who asks, until their invisible time is over. Then the broker brings them back.
After the consumer is closed, what a pop still brings is handed back.

A batch that is stored as one record (topics of `queue.type=BatchCQ`) is opened, and acknowledged with its last message.

Invariants: at most `COUNT_MAX` records per broker wait here; none is handed out after its time, or twice.

Mirrors: DefaultMQPushConsumerImpl.popMessage, PopMessageRequestHeader.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from cometmq.client.instance import ClientInstance
from cometmq.client.message import ReceivedMessage
from cometmq.client.pulled import BATCH, opened
from cometmq.client.wanted import chosen
from cometmq.errors import CometError, PeerRefused, PeerUnreachable, ServerTooOld
from cometmq.model.route import MASTER_ID
from cometmq.model.subscription import SubscriptionData
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.receipt import Handle, handles_of, order_counts
from cometmq.wire.record import decode_records
from cometmq.wire.requests.pop import PopMessage, PopMessageReply

if TYPE_CHECKING:
    from cometmq.client.trace import Hearing

log = logging.getLogger("cometmq.client")

COUNT_MAX: Final = 32  # more are refused by brokers
POLL_S_MAX: Final = 15.0
BUSY_PAUSE_S: Final = 0.2
FAULT_PAUSE_S: Final = 0.05
FAULT_PAUSE_S_MAX: Final = 5.0

_SUCCESS: Final = int(ResponseCode.SUCCESS)
_NOTHING: Final = (int(ResponseCode.POLLING_TIMEOUT), int(ResponseCode.PULL_NOT_FOUND))
_BUSY: Final = (
    int(ResponseCode.POLLING_FULL),
    int(ResponseCode.SYSTEM_BUSY),
    int(ResponseCode.FLOW_CONTROL),
    int(ResponseCode.SERVICE_NOT_AVAILABLE),
)
_NOT_SUPPORTED: Final = int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)


class Wish(NamedTuple):
    """What is popped, and how."""

    wanted: SubscriptionData
    invisible_ms: int
    in_order: bool
    init_mode: int


class Desk(Protocol):
    """Where popped messages are taken back: the consumer."""

    async def ack_popped(self, popped: Popped) -> None: ...

    async def change_popped(self, popped: Popped, duration: timedelta) -> None: ...

    async def hand_back(self, some: list[Popped]) -> None: ...


class Parcel:
    """What one receipt stands for: a message, or those of a batch, of which `left` are not acknowledged.

    `until_s` is the loop's time when it becomes visible again.
    """

    __slots__ = ("handle", "left", "until_s")

    def __init__(self, handle: Handle, until_s: float, left: int = 1) -> None:
        self.handle = handle
        self.until_s = until_s
        self.left = left


class Popped:
    """A message with its receipt."""

    __slots__ = ("_desk", "hearing", "is_done", "message", "parcel")

    def __init__(self, message: ReceivedMessage, parcel: Parcel, desk: Desk) -> None:
        self.message = message
        self.parcel = parcel
        self.is_done = False
        self.hearing: Hearing | None = None  # where it is traced
        self._desk = desk
        message.deliverer = self

    async def ack(self, message: ReceivedMessage) -> None:
        await self._desk.ack_popped(self)

    async def change_invisible(self, message: ReceivedMessage, duration: timedelta) -> None:
        await self._desk.change_popped(self, duration)


class Pops:
    """See the module."""

    def __init__(self, instance: ClientInstance, group: str, wish: Wish, desk: Desk) -> None:
        self.wish = wish
        self._instance = instance
        self._group = group
        self._desk = desk
        self._is_chosen = chosen(wish.wanted)
        self._loop = asyncio.get_running_loop()
        self._ready: deque[Popped] = deque()
        self._pops: dict[str, asyncio.Task[None]] = {}
        self._pauses: dict[str, float] = {}  # brokers that are not asked before a time
        self._faults: dict[str, int] = {}  # in a row
        self._news: asyncio.Future[None] | None = None
        self.fault: CometError | None = None  # of the last pop, if it failed
        self.unwanted: list[Popped] = []  # whose tag only has the hash of a wanted one
        self._is_left = False

    def take(self) -> Popped | None:
        """The next message whose time is not over."""
        now = self._loop.time()
        while self._ready:
            popped = self._ready.popleft()
            if popped.parcel.until_s > now:
                return popped
            log.info("%s waited here until its invisible time was over; the broker brings it again", popped.message)
        return None

    def take_all(self) -> Iterator[Popped]:
        while (popped := self.take()) is not None:
            yield popped

    @property
    def is_asking(self) -> bool:
        return bool(self._pops)

    @property
    def is_idle(self) -> bool:
        return not self._pops and not self._ready

    def ask(self, count: int, poll_s: float) -> list[asyncio.Task[None]]:
        """Pop from all brokers that are not asked already; these pops."""
        topic = self.wish.wanted.topic
        brokers = {queue.broker_name or "" for queue in self._instance.readable_queues(topic)}
        now = self._loop.time()
        asked = []
        for broker in brokers - self._pops.keys():
            if self._pauses.get(broker, 0.0) <= now and self._instance.routes.address(broker, MASTER_ID) is not None:
                running = self._pop(broker, min(count, COUNT_MAX), min(poll_s, POLL_S_MAX))
                self._pops[broker] = self._instance.spawn(running, f"pop of {topic} from {broker}")
                asked.append(self._pops[broker])
        return asked

    def pause_s(self) -> float:
        """How long nobody may be asked."""
        now = self._loop.time()
        return max(0.05, min((until - now for until in self._pauses.values() if until > now), default=FAULT_PAUSE_S))

    async def news(self, timeout_s: float) -> None:
        """Wait until a pop has ended."""
        if self._news is None or self._news.done():
            self._news = self._loop.create_future()
        await asyncio.wait([self._news], timeout=max(timeout_s, 0.0))

    async def _pop(self, broker: str, count: int, poll_s: float) -> None:
        wish, wanted = self.wish, self.wish.wanted
        request = PopMessage(
            consumer_group=self._group,
            topic=wanted.topic,
            queue_id=-1,
            max_msg_nums=count,
            invisible_time=wish.invisible_ms,
            poll_time=int(poll_s * 1000),
            born_time=0,  # the broker's own clock counts
            init_mode=wish.init_mode,
            exp_type=wanted.expression_type,
            exp=wanted.sub_string,
            order=wish.in_order,
        )
        try:
            timeout_ms = int(poll_s * 1000) + self._instance.options.request_timeout_ms
            answer = await self._instance.exchange(broker, request, timeout_ms=timeout_ms)
            self._answered(broker, answer)
            if self._is_left:
                await self._desk.hand_back(list(self.take_all()))
            self.fault = None
            self._faults.pop(broker, None)
        except CometError as fault:
            self.fault = fault
            count = self._faults[broker] = self._faults.get(broker, 0) + 1
            pause_s = min(FAULT_PAUSE_S * 2 ** min(count - 1, 10), FAULT_PAUSE_S_MAX)
            self._pauses[broker] = self._loop.time() + pause_s
            log.info("popping %s from %s failed, next try in %s s: %s", wanted.topic, broker, pause_s, fault)
        finally:
            self._pops.pop(broker, None)
            if self._news is not None and not self._news.done():
                self._news.set_result(None)

    def _answered(self, broker: str, answer: Command) -> None:
        if answer.code == _SUCCESS:
            self._take_in(broker, answer)
        elif answer.code in _BUSY:
            self._pauses[broker] = self._loop.time() + BUSY_PAUSE_S
        elif answer.code == _NOT_SUPPORTED:
            raise ServerTooOld(
                f"broker {broker} knows no pop (200050), which a SimpleConsumer needs; Apache RocketMQ has it since "
                "5.0. Use a PushConsumer or LitePullConsumer, or a newer broker."
            )
        elif answer.code not in _NOTHING:
            raise PeerRefused(answer.code, answer.remark or "", f"broker {broker}")

    def _take_in(self, broker: str, answer: Command) -> None:
        reply = PopMessageReply.read(answer.ext)
        records = list(decode_records(answer.body))
        handles = handles_of(reply, records, broker)
        counts = order_counts(reply.order_count_info)
        # Counted from when the answer came: a little too long, but never by the clocks of two machines.
        until_s = self._loop.time() + reply.invisible_time / 1000
        for record, handle in zip(records, handles, strict=True):
            if counts:
                by_offset = f"qo{handle.queue_id}%{handle.queue_offset}"
                found = counts.get((handle.mark, by_offset)) or counts.get((handle.mark, str(handle.queue_id)))
                record.reconsume_times = found or record.reconsume_times
            inner = list(opened(record)) if record.sys_flag & BATCH == BATCH else [record]
            parcel = Parcel(handle, until_s, len(inner))
            for one in inner:
                message = ReceivedMessage(one, broker, topic=self.wish.wanted.topic)
                popped = Popped(message, parcel, self._desk)
                if self._is_chosen is None or self._is_chosen(message):
                    self._ready.append(popped)
                else:
                    self.unwanted.append(popped)

    def check(self) -> None:
        """Raise what asking again would not mend."""
        fault, self.fault = self.fault, None
        if fault is not None and not fault.retriable:
            raise fault
        if fault is not None and not self._pops:
            self.fault = fault  # told when the program's patience is over

    def give_up(self) -> None:
        """Nothing came in time: raise if that is because no broker could be asked."""
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        if not self._instance.readable_queues(self.wish.wanted.topic):
            raise PeerUnreachable(f"the topic {self.wish.wanted.topic} has no queue that can be read now")

    async def leave(self) -> None:
        """Hand back what waits here, now, and what pops under way bring, when it comes.

        They cannot be called back: where others use the connection, the broker would hand messages to nobody.
        """
        self._is_left = True
        await self._desk.hand_back(list(self.take_all()))
