"""What a task does: it sends the rows of its partition, and returns when brokers have acknowledged all of them.

Rows go out by the Arrow batch, all of them at once as far as the producer's window goes. What was not acknowledged is
sent again until `retryTimeoutMs` is over: alone, or, where rows have sharding keys, together with every such row behind
it, so that a consumer that sees a row twice sees what follows it again, too, in order.

Under exactly-once the rows become half messages that carry the attempt's mark. One that was sent twice leaves a half
message that the attempt does not list, and which is rolled back for that. An attempt that fails rolls back by itself
what it knows of, as nobody else will hear of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import uuid4

import pyarrow

from cometmq.client.message import Message, Receipt, SendStatus
from cometmq.client.producer import Producer
from cometmq.client.transaction import Decision
from cometmq.errors import CometError, InvalidArgument, InvalidMessage, SendFailed, TopicNotFound
from cometmq.spark.sink_clients import check_sure, may_pass, producer_of, run, tries, writable
from cometmq.spark.sink_manifest import Attempt, Mark
from cometmq.spark.sink_options import WriteOptions
from cometmq.spark.sink_rows import Columns, Ids, Row
from cometmq.spark.sink_verdicts import Verdicts
from cometmq.wire.bodies.positions import Position, PositionsPacker
from cometmq.wire.message_id import parse_offset_id

log = logging.getLogger("cometmq.spark")

TASKS_SUFFIX = "_tasks"  # of their producer group: who sends half messages is not asked how they ended


class Piece(NamedTuple):
    """Whose rows these are."""

    query: str
    batch: int
    partition: int


@dataclass(slots=True)
class Sent:
    """What was acknowledged so far."""

    count: int = 0
    topics: set[str] = field(default_factory=set)
    places: defaultdict[str, PositionsPacker] = field(default_factory=lambda: defaultdict(PositionsPacker))


class TaskSender:
    """Sends one partition, once."""

    def __init__(self, options: WriteOptions, columns: Columns, piece: Piece) -> None:
        self._options = options
        self._columns = columns
        self._piece = piece
        self._ids = Ids(*piece)
        self._attempt = uuid4().hex[:16]
        self._mark = Mark(*piece, self._attempt).text
        self._sent = Sent()

    def write(self, batches: Iterator[pyarrow.RecordBatch]) -> Attempt:
        """Send everything; raises if anything was not acknowledged."""
        first = 0
        try:
            for batch in batches:
                rows = list(self._columns.rows(batch, first))
                start = first
                run(lambda rows=rows, start=start: self._send(rows, start))  # type: ignore[misc]
                first += len(rows)
        except BaseException:
            if self._sent.places:
                run(self._roll_back)
            raise
        return self._written

    @property
    def _written(self) -> Attempt:
        places = {broker: packer.packed() for broker, packer in self._sent.places.items()}
        return Attempt(self._piece.partition, self._attempt, tuple(sorted(self._sent.topics)), places)

    @property
    def count(self) -> int:
        return self._sent.count

    async def _send(self, rows: list[Row], first: int) -> None:
        options = self._options
        group = f"{options.group}{TASKS_SUFFIX}" if options.exactly_once else options.group
        producer = await producer_of(options.client, group)
        receipts: list[Receipt | None] = [None] * len(rows)
        waiting = list(range(len(rows)))
        try:
            async for one in tries(options.retry_ms, self._may_pass):
                with one:
                    await self._check_topics(producer, {row.message.topic for row in rows})
                    await self._round(producer, rows, first, waiting, receipts)
        finally:
            self._take([receipt for receipt in receipts if receipt is not None])

    async def _roll_back(self) -> None:
        """As far as brokers can be reached now; of the rest they will ask the driver."""
        options = self._options
        try:
            producer = await producer_of(options.client, f"{options.group}{TASKS_SUFFIX}")
            await Verdicts(producer, options.group, 0).tell(Decision.ROLLBACK, [(self._written, self._mark)])
        except CometError as fault:
            log.info("half messages of %s are left to be asked about: %s", self._mark, fault)

    async def _check_topics(self, producer: Producer, topics: set[str]) -> None:
        for topic in topics:
            for queue in await writable(producer, topic):
                if self._options.exactly_once:
                    await check_sure(producer, self._options.client.namesrv, queue.broker_name or "")

    async def _round(
        self, producer: Producer, rows: list[Row], first: int, waiting: list[int], receipts: list[Receipt | None]
    ) -> None:
        """Send those that wait; raises a fault if some still do, which `waiting` names then."""
        posted = []
        fault: CometError | None = None
        for at in waiting:
            try:
                posted.append((at, await self._post(producer, rows[at], first + at)))
            except CometError as refused:
                fault = refused
                break
        answers = await asyncio.gather(*(future for _, future in posted), return_exceptions=True)
        failed = set(waiting[len(posted) :])
        for (at, _), answer in zip(posted, answers, strict=True):
            if isinstance(answer, Receipt) and answer.status is SendStatus.OK:
                receipts[at] = answer
                continue
            failed.add(at)
            if isinstance(answer, Receipt):
                why = f"{answer.status}: the broker has it, and does not know it to be as safe as its settings demand"
                answer = SendFailed(answer.topic, answer.broker_name, 1, why)
            if not isinstance(answer, CometError):
                raise answer
            if fault is None or not may_pass(answer):
                fault = answer
        if failed and self._columns.is_ordered and not self._options.exactly_once:
            failed.update(at for at in waiting if at > min(failed) and rows[at].message.sharding_key is not None)
        waiting[:] = sorted(failed)
        if fault is not None:
            raise fault

    async def _post(self, producer: Producer, row: Row, number: int) -> asyncio.Future[Receipt]:
        message, unique_key = row.message, row.id or self._ids.id(number)
        try:
            return await self._posted(producer, row, message, unique_key)
        except InvalidArgument as fault:
            raise InvalidMessage(f"row {number} of its partition cannot be written: {fault}") from None

    async def _posted(self, producer: Producer, row: Row, message: Message, unique_key: str) -> asyncio.Future[Receipt]:
        if self._options.exactly_once:
            return await producer.post_half(message, owner=self._options.group, mark=self._mark, unique_key=unique_key)
        attempts = 1 if message.sharding_key is not None else None  # tried again alone it would come behind the others
        return await producer.post(
            message, delay=row.delay_level, at=row.deliver_at, unique_key=unique_key, attempts=attempts
        )

    def _may_pass(self, fault: CometError) -> bool:
        """A topic that this task has sent to is there, though no name server may know it for a moment."""
        return may_pass(fault) or (isinstance(fault, TopicNotFound) and fault.topic in self._sent.topics)

    def _take(self, receipts: list[Receipt]) -> None:
        sent = self._sent
        sent.count += len(receipts)
        sent.topics.update(receipt.topic for receipt in receipts)
        if not self._options.exactly_once:
            return
        found: defaultdict[str, list[Position]] = defaultdict(list)
        for receipt in receipts:
            _, physical_offset = parse_offset_id(receipt.offset_message_id)
            found[receipt.broker_name].append(Position(receipt.queue_offset, physical_offset))
        for broker, positions in found.items():  # packed, as there may be any number of rows
            sent.places[broker].add(positions)
