"""Pop on a store of its own, with time that tests own: the real services, the real timer, no sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.unit.broker.state_kit import MemoryTable
from tests.unit.store.kit import HandClock, QuickFs, open_small

from cometmq.broker.config import BrokerConfig
from cometmq.broker.durability import Settle
from cometmq.broker.groups import Groups
from cometmq.broker.inner_messages import InnerMessage, InnerMessages
from cometmq.broker.inner_reader import InnerRead, InnerReader
from cometmq.broker.offsets import Offsets
from cometmq.broker.order_info import OrderInfos
from cometmq.broker.pop.acknowledging import Acknowledging
from cometmq.broker.pop.buffer import PopBuffer
from cometmq.broker.pop.checks import Checks
from cometmq.broker.pop.inflight import Inflight
from cometmq.broker.pop.looking import Looking
from cometmq.broker.pop.places import Places
from cometmq.broker.pop.popping import Popping
from cometmq.broker.pop.retry_messages import RetryMessages
from cometmq.broker.pop.retry_topic import revive_topic
from cometmq.broker.pop.revive import PENDING_MAX, Reviver
from cometmq.broker.pop.revive_log import ReviveLog
from cometmq.broker.statistics import Reads
from cometmq.broker.timer.metrics import TimerMetrics
from cometmq.broker.timer.service import TimerService
from cometmq.broker.timer.stage import TIME_KEYS, TimerStage
from cometmq.broker.topics import Topics
from cometmq.errors import PeerUnreachable
from cometmq.model import properties
from cometmq.model.topic import TopicConfig
from cometmq.net.routes import Call, Routes
from cometmq.store.engine import Store
from cometmq.store.timer_files import TimerFiles
from cometmq.wire.command import Command, decode_command
from cometmq.wire.record import Record, decode_records
from cometmq.wire.requests.pop import AckMessage, ChangeInvisibleTime, PopMessage
from cometmq.wire.schema import Header

TOPIC, GROUP, QUEUES = "orders", "readers", 2


class Turns:
    """In place of the loop's turns: the test says when they end."""

    def __init__(self, kit: PopKit) -> None:
        self._kit = kit
        self.promises: list[tuple[int, Settle]] = []

    def end_turn_soon(self) -> None:
        pass

    def when_safe(self, end_offset: int, settle: Settle) -> None:
        self.promises.append((end_offset, settle))

    async def safe(self, end_offset: int) -> None:
        self._kit.end_turn()

    def settle(self) -> None:
        while self.promises:
            self.promises.pop(0)[1](None)


class FakeChannel:
    """Keeps what is sent."""

    peer = "127.0.0.1:1"
    is_open = True

    def __init__(self) -> None:
        self.sent = b""

    def send(self, *buffers: bytes | memoryview) -> None:
        self.sent += b"".join(buffers)


@dataclass(frozen=True)
class Handed:
    """A message handed out, and the receipt a client makes of the reply."""

    record: Record
    topic: str
    queue_id: int
    receipt: str

    @property
    def name(self) -> str:
        return self.record.body.decode()

    @property
    def offset(self) -> int:
        return self.record.queue_offset


class PopKit:
    """One broker's pop."""

    def __init__(self, root: Path, *, pending_max: int = PENDING_MAX, **config: Any) -> None:
        self.root = root
        self.pending_max = pending_max  # of each reviver
        self.clock = HandClock()
        self.config = BrokerConfig(**config)
        self.tables = {name: MemoryTable() for name in ("topics", "groups", "offsets", "orders", "metrics")}
        self.store: Store

    async def start(self) -> None:
        config, clock, tables = self.config, self.clock, self.tables
        self.store = store = open_small(self.root, QuickFs(), clock, mapped_file_size_commit_log=1 << 16)
        self.turns = Turns(self)
        durability: Any = self.turns
        self.messages = messages = InnerMessages(store, durability)
        self.topics = Topics(tables["topics"], config, clock)
        self.groups = Groups(tables["groups"], config, clock)
        self.offsets = Offsets(tables["offsets"], config, clock)
        self.order_infos = OrderInfos(tables["orders"], self.topics, self.groups, clock)
        if TOPIC not in self.topics:
            self.topics.update(TopicConfig(TOPIC, QUEUES, QUEUES))
            self.topics.persist()
        self._start_timer(durability)
        self.revive_topic = revive_topic(config.broker_cluster_name)
        revive_log = ReviveLog(self.revive_topic, config.revive_queue_num, messages, store.store_host, clock)
        self.buffer = buffer = PopBuffer(config, revive_log, self.offsets, durability, clock)
        self.inflight = Inflight(config, self.offsets, clock)
        checks = Checks(config, self.topics, self.groups)
        self.places = places = Places(config, self.offsets, buffer, self.order_infos, store)
        self.popping = Popping(
            config,
            checks,
            self.topics,
            self.offsets,
            places,
            buffer,
            self.inflight,
            self.order_infos,
            store,
            clock,
            Reads(),
        )
        looking = Looking(
            config, checks, self.topics, places, self.order_infos, store, clock, self.popping.long_polling
        )
        self.acknowledging = Acknowledging(
            checks,
            self.offsets,
            buffer,
            self.inflight,
            revive_log,
            self.order_infos,
            store,
            durability,
            clock,
            lambda *queue: None,
        )
        self.routes = Routes()
        self.routes.add(self.popping, looking, self.acknowledging)
        reader = InnerReader(store)
        self.retry_messages = RetryMessages(
            messages,
            revive_log,
            durability,
            self.topics,
            self.offsets,
            store.store_host,
            clock,
            v2=config.enable_retry_topic_v2,
        )
        self.revivers = [
            Reviver(
                self.revive_topic,
                queue_id,
                config.broker_name,
                reader,
                self._read_elsewhere,
                self.retry_messages,
                self.inflight,
                self.topics,
                self.groups,
                self.offsets,
                clock,
                interval_ms=config.revive_interval,
                pending_max=self.pending_max,
                timer_is_late=self.timer.is_late,
                end_of=store.next_offset,
            )
            for queue_id in range(config.revive_queue_num)
        ]

    @staticmethod
    async def _read_elsewhere(broker_name: str, topic: str, queue_id: int, offset: int, count: int) -> InnerRead:
        raise PeerUnreachable(f"{broker_name} is not here")

    def _start_timer(self, durability: Any) -> None:
        store, clock = self.store, self.clock
        self.files = TimerFiles(QuickFs(), store.config.store_path_root_dir, precision_ms=1000, log_file_size=1 << 16)
        self.files.open(store.written_offset)
        self.timer = TimerService(
            self.files,
            store,
            self.messages,
            InnerReader(store),
            durability,
            TimerMetrics(self.tables["metrics"], clock),
            clock,
        )
        stage = TimerStage(
            store.config, clock, enabled=True, waiting_at=self.timer.waiting_at, on_recall=self.timer.recall
        )
        self.messages.add_stage(stage, *TIME_KEYS)

    # --- ending

    def end_turn(self) -> None:
        """Everything that was stored is safe and visible, and who waited for it is told."""
        self.topics.persist()
        self.acknowledging.flush()
        self.store.write()
        self.store.flush_log()
        self.turns.settle()
        self.store.dispatch()

    async def save(self) -> None:
        """As the ticker saves, now and then."""
        self.offsets.persist()
        self.order_infos.persist()
        await self.timer.flush(thorough=True)

    async def kill(self) -> None:
        self.let_go()
        await self.start()

    def let_go(self) -> None:
        """As a killed process does."""
        self.files.close()
        self.store.abandon()

    async def stop(self) -> None:
        self.buffer.flush()
        self.end_turn()
        await self.timer.close()
        self.end_turn()
        self.offsets.persist()
        self.order_infos.persist()
        self.files.close()
        self.store.close()

    # --- what clients do

    def send(self, name: str, queue_id: int = 0, tags: str | None = None) -> None:
        found = {properties.TAGS: tags} if tags else {}
        self.messages.put(InnerMessage(TOPIC, queue_id, name.encode(), found))
        self.end_turn()

    def ask(self, request: Header, body: bytes = b"", *, end_turn: bool = True) -> Command | None:
        """The answer; None as long as there is none."""
        channel = FakeChannel()
        self.routes.answer(channel, request.command(body))  # type: ignore[arg-type]
        if end_turn:
            self.end_turn()
        return decode_command(channel.sent[4:]) if channel.sent else None

    def pop_reply(self, *, end_turn: bool = True, **fields: Any) -> Command | None:
        wanted: dict[str, Any] = {
            "consumer_group": GROUP,
            "topic": TOPIC,
            "queue_id": -1,
            "max_msg_nums": 32,
            "invisible_time": 10_000,
            "poll_time": 0,
            "born_time": 0,
            "init_mode": 0,
        }
        return self.ask(PopMessage(**{**wanted, **fields}), end_turn=end_turn)

    def pop(self, **fields: Any) -> list[Handed]:
        reply = self.pop_reply(**fields)
        assert reply is not None
        return handed_by(reply, fields.get("topic", TOPIC), fields.get("consumer_group", GROUP), self.config)

    def ack(self, handed: Handed, **fields: Any) -> Command | None:
        return self.ask(AckMessage(**receipt_fields(handed), **fields))

    def change(self, handed: Handed, invisible_time: int, **fields: Any) -> tuple[Command, Handed]:
        """Ask for time; the receipt that counts from then on comes back too."""
        reply = self.ask(ChangeInvisibleTime(**receipt_fields(handed), invisible_time=invisible_time, **fields))
        assert reply is not None
        receipt = handed.receipt.split(" ")
        if "popTime" in reply.ext:
            receipt[:3] = str(handed.offset), reply.ext["popTime"], reply.ext["invisibleTime"]
        return reply, Handed(handed.record, handed.topic, handed.queue_id, " ".join(receipt))

    async def pass_time(self, ms: int, step_ms: int = 500) -> None:
        """Let time pass, and what happens by itself in it."""
        until_ms = self.clock.ms + ms
        while self.clock.ms < until_ms:
            self.clock.ms = min(self.clock.ms + step_ms, until_ms)
            await self.tick()

    async def tick(self) -> None:
        self.buffer.tick()
        self.end_turn()
        await self.timer.turn()
        self.end_turn()
        for reviver in self.revivers:
            await reviver.round()
        self.end_turn()


def receipt_fields(handed: Handed) -> dict[str, Any]:
    return {
        "topic": handed.topic,
        "consumer_group": GROUP,
        "queue_id": handed.queue_id,
        "extra_info": handed.receipt,
        "offset": handed.offset,
    }


def handed_by(reply: Command, topic: str, group: str, config: BrokerConfig) -> list[Handed]:
    """The messages of a reply with their receipts, put together as the Java client does it."""
    if reply.code:
        return []
    starts = dict(_parts(reply.ext["startOffsetInfo"]))
    handed = []
    for record in decode_records(bytes(reply.body), check_crc=True):
        receipt = record.properties.get(properties.POP_CK)
        real_topic = topic
        if receipt is None:
            start = starts["0", str(record.queue_id)]
            fields = (start, reply.ext["popTime"], reply.ext["invisibleTime"], reply.ext["reviveQid"], "0")
            receipt = " ".join((*fields, config.broker_name, str(record.queue_id), str(record.queue_offset)))
        else:
            real_topic = f"%RETRY%{group}{'+' if receipt.split(' ')[4] == '2' else '_'}{topic}"
        handed.append(Handed(record, real_topic, record.queue_id, receipt))
    return handed


def _parts(info: str) -> list[tuple[tuple[str, str], str]]:
    return [((mark, queue), rest) for mark, queue, rest in (part.split(" ") for part in info.split(";") if part)]


def names(handed: Sequence[Handed]) -> list[str]:
    return sorted(one.name for one in handed)


def run(test: Any) -> None:
    asyncio.run(test)


__all__ = ["GROUP", "QUEUES", "TOPIC", "Call", "Handed", "PopKit", "handed_by", "names", "receipt_fields", "run"]
