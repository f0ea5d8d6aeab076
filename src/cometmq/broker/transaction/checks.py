"""Check-back: producers are asked about transactions that they left open.

Each round goes through the half queue from the first open copy on, and stops at the first that is too young to ask
about; the queue is in order of arrival, so those behind it are younger still. One that is asked about is stored again
behind the others first: the request names the new copy, and the next round sees it again. Half messages with an
immunity of their own are moved in the same way while they are immune, so that they hold nobody up.
Differs from Java: moving an immune one does not count as a check, so a long immunity does not use up its checks.

A half message that carries the property __COMET_PATIENT (Java knows nothing of it) is *patient*: who sent it knows that
its verdict may be long in coming. It is asked about where it stands, and only while a producer of its group is
connected; no check is counted, and it is given up for its age alone (`fileReservedTime`). A round asks about
`PATIENT_ASKED_MAX` of them, and the next goes on behind those: there may be as many as a batch has rows.

A patient one is stored again when it stands there for as long as it was old when it was put there, `PATIENT_COPY_MS` at
least: nine copies in 72 hours, if nobody comes. Each keeps the half queue's window and the walk of the next start short
(`recovery`), which go back to the first open copy; so one is made as soon as `PATIENT_LOG_MAX` bytes of the log or
`PATIENT_BEHIND_MAX` half messages stand behind the last, though not within `PATIENT_COPY_MS`.

The members of the producer group are asked in turn, one for each check; who is closed or does not read is left out.
Bounds: one read of the queue is in memory at a time, and the next waits until its copies are safe.

Mirrors: TransactionalMessageServiceImpl.check, AbstractTransactionalMessageCheckListener,
ProducerManager.getAvailableChannel.
"""

from __future__ import annotations

import asyncio
import logging
from enum import Enum, auto
from typing import Final

from cometmq.broker.config import BrokerConfig
from cometmq.broker.durability import Durability
from cometmq.broker.inner_reader import InnerReader
from cometmq.broker.members import Members, Peer
from cometmq.broker.transaction.half import QUEUE_ID, Half
from cometmq.broker.transaction.service import Transactions
from cometmq.broker.transaction.window import COPIES_MAX, State
from cometmq.clock import Clock
from cometmq.errors import MessageRefused
from cometmq.model import names, properties
from cometmq.store.engine import Store
from cometmq.store.reader import ReadStatus
from cometmq.wire.message_id import offset_id
from cometmq.wire.record import Record, encode_record
from cometmq.wire.requests.transaction import CheckTransactionState

log = logging.getLogger("cometmq.broker")

READ_COUNT: Final = 32
TURNS_MAX: Final = 10_000  # groups whose turn is remembered

GROUPS_NAMED_MAX: Final = 10
HOUR_MS: Final = 3_600_000
PATIENT_COPY_MS: Final = 600_000
PATIENT_LOG_MAX: Final = 16 << 30
PATIENT_BEHIND_MAX: Final = COPIES_MAX // 4
PATIENT_ASKED_MAX: Final = 4096


class Due(Enum):
    """What a round does with an open half message."""

    YOUNG = auto()
    IMMUNE = auto()
    LEAVE = auto()  # it is too young, though what stands behind it may not be
    CHECK = auto()
    ASK = auto()  # where it stands
    GIVE_UP = auto()


class Checks:
    """Asks producers."""

    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        reader: InnerReader,
        durability: Durability,
        members: Members,
        transactions: Transactions,
        clock: Clock,
    ) -> None:
        self._broker_name = config.broker_name
        self._timeout_ms = config.transaction_time_out
        self._checks_max = config.transaction_check_max
        self._reserved_ms = store.config.file_reserved_time * HOUR_MS
        self._store = store
        self._reader = reader
        self._durability = durability
        self._members = members
        self._transactions = transactions
        self._clock = clock
        self._turns: dict[str, int] = {}
        self._given_up = 0
        self._absent: set[str] = set()  # groups of which nobody could be asked in this round
        self._patient_from = 0  # where asking about patient ones begins
        self._patient_left = 0  # how many more may be asked about in this round

    async def round(self) -> None:
        """Go through the half queue once; what went wrong is said once, not for each message."""
        self._given_up = 0
        self._absent.clear()
        self._patient_left = PATIENT_ASKED_MAX
        try:
            await self._go_through()
            if self._patient_left > 0:
                self._patient_from = 0
        finally:
            if self._given_up:
                log.warning("%d transactions that nobody ended are in %s", self._given_up, names.CHECK_MAX_TIME_TOPIC)
            if self._absent:
                some = ", ".join(sorted(self._absent)[:GROUPS_NAMED_MAX])
                log.warning("nobody of %d producer groups can be asked: %s", len(self._absent), some)

    async def _go_through(self) -> None:
        transactions = self._transactions
        transactions.ops.write()
        began_ms = self._clock.now_ms()
        offset = transactions.window.base
        end = self._store.max_offset(names.HALF_TOPIC, QUEUE_ID)
        while (offset := transactions.window.next_open(offset)) < end:
            found = await self._reader.read(names.HALF_TOPIC, QUEUE_ID, offset, READ_COUNT)
            if found.next_offset <= offset:
                break
            if found.status is not ReadStatus.FOUND:  # retention took what was there
                transactions.window.pass_before(min(found.next_offset, end))
            elif not await self._look_at([one for one in found.records if one.queue_offset < end], began_ms):
                break
            offset = found.next_offset
            await asyncio.sleep(0)  # many patient ones are read in each round: let others have their turn
        transactions.ops.write()

    async def _look_at(self, records: list[Record], began_ms: int) -> bool:
        """Do what is due about some half messages; False if one is too young."""
        asked: list[tuple[Half, int | None, int, int]] = []
        copies_end = 0
        old_enough = True
        for record in records:
            if self._transactions.window.state(record.queue_offset) is not State.OPEN:
                continue
            half = Half.read(record)
            if half is None:
                self._transactions.drop(record.queue_offset)
                continue
            due = self._due(half, began_ms)
            if due is Due.YOUNG:
                old_enough = False
                break
            if due is Due.GIVE_UP:
                self._give_up(half)
                continue
            if due is Due.LEAVE:
                continue
            if due is Due.ASK:
                if self._patient_left > 0 and record.queue_offset >= self._patient_from:
                    asked.append((half, None, record.queue_offset, record.physical_offset))
                continue
            times = max(half.check_times or 0, 0) + 1 if due is Due.CHECK else None
            try:
                placed = self._transactions.store_again(half, check_times=times)
            except MessageRefused:  # the properties have no room for one more
                if half.is_patient:
                    asked.append((half, None, record.queue_offset, record.physical_offset))
                else:
                    self._give_up(half)
                continue
            copies_end = placed.physical_offset + placed.size
            if times is not None:
                asked.append((half, times, placed.queue_offset, placed.physical_offset))
        if copies_end:
            await self._durability.safe(copies_end)
        for one in asked:
            self._ask(*one)
        return old_enough

    def _give_up(self, half: Half) -> None:
        self._transactions.give_up(half)
        self._given_up += 1

    def _due(self, half: Half, began_ms: int) -> Due:
        record = half.record
        age_ms = self._clock.now_ms() - record.born_time_ms
        times = half.check_times
        if (times is not None and times >= self._checks_max and not half.is_patient) or age_ms > self._reserved_ms:
            return Due.GIVE_UP
        if record.store_time_ms >= began_ms:
            return Due.YOUNG
        immunity_ms = half.immunity_ms(self._timeout_ms)
        if half.is_patient:
            return self._due_patiently(half, age_ms, self._timeout_ms if immunity_ms is None else immunity_ms)
        if immunity_ms is not None:
            return Due.IMMUNE if age_ms <= immunity_ms else Due.CHECK
        return Due.YOUNG if 0 <= age_ms <= self._timeout_ms else Due.CHECK

    def _due_patiently(self, half: Half, age_ms: int, alone_ms: int) -> Due:
        record = half.record
        stands_ms = self._clock.now_ms() - record.store_time_ms
        age_there_ms = record.store_time_ms - record.born_time_ms if half.root != record.queue_offset else 0
        if stands_ms > max(PATIENT_COPY_MS, age_there_ms) or (stands_ms > PATIENT_COPY_MS and self._is_far(record)):
            return Due.IMMUNE
        return Due.LEAVE if 0 <= age_ms <= alone_ms else Due.ASK

    def _is_far(self, record: Record) -> bool:
        """Whether so much stands behind it that a start would be slow, or other producers would be held up."""
        behind = self._store.next_offset(names.HALF_TOPIC, QUEUE_ID) - record.queue_offset
        return self._store.written_offset - record.physical_offset > PATIENT_LOG_MAX or behind > PATIENT_BEHIND_MAX

    # --- asking

    def _ask(self, half: Half, times: int | None, queue_offset: int, physical_offset: int) -> None:
        """Ask about the copy that stands there; without `times` it is a patient one, of which none are counted."""
        group = half.properties.get(properties.PRODUCER_GROUP)
        channel = None if group is None else self._next_producer(group)
        if channel is None:
            if group is not None and times is not None and len(self._absent) < TURNS_MAX:
                self._absent.add(group)
            return
        if times is None:
            self._patient_left -= 1
            self._patient_from = half.record.queue_offset + 1
        uniq_key = half.properties.get(properties.UNIQ_KEY)
        request = CheckTransactionState(
            topic=names.HALF_TOPIC,
            tran_state_table_offset=queue_offset,
            commit_log_offset=physical_offset,
            msg_id=uniq_key,
            transaction_id=uniq_key,
            offset_msg_id=offset_id(self._store.store_host, physical_offset),
            broker_name=self._broker_name,
        )
        channel.notify(request, _as_producer_sent_it(half, times, queue_offset, physical_offset))

    def _next_producer(self, group: str) -> Peer | None:
        """The member whose turn it is."""
        ready = [one.channel for one in self._members.producers_of(group) if one.channel.is_open]
        ready = [channel for channel in ready if channel.is_writable]
        if not ready:
            return None
        turn = self._turns.pop(group, -1) + 1
        self._turns[group] = turn
        if len(self._turns) > TURNS_MAX:
            del self._turns[next(iter(self._turns))]
        return ready[turn % len(ready)]


def _as_producer_sent_it(half: Half, times: int | None, queue_offset: int, physical_offset: int) -> bytes:
    """The half message as a record of the topic it is meant for, standing where its new copy stands.

    Of a patient one the answerer is told where its first copy stood: that is the place it knows.
    """
    record = half.record
    found = {**half.properties, properties.WAIT: "false"}
    if times is None:
        found[properties.TRANSACTION_PREPARED_QUEUE_OFFSET] = str(half.root)
    else:
        found[properties.TRANSACTION_CHECK_TIMES] = str(times)
        if properties.CHECK_IMMUNITY_TIME_IN_SECONDS not in found:
            found.pop(properties.TRANSACTION_PREPARED_QUEUE_OFFSET, None)
    return encode_record(
        topic=half.real_topic.encode(),
        queue_id=half.real_queue_id,
        flag=record.flag,
        queue_offset=queue_offset,
        physical_offset=physical_offset,
        sys_flag=record.sys_flag,
        born_time_ms=record.born_time_ms,
        born_host=record.born_host,
        store_time_ms=record.store_time_ms,
        store_host=record.store_host,
        reconsume_times=record.reconsume_times,
        prepared_offset=record.prepared_offset,
        body=record.body,
        properties_data=properties.render(found).encode(),
    )
