"""END_TRANSACTION (37) and RESUME_CHECK_HALF_MESSAGE (323).

The checks and their order are Java's. Differs on purpose: the first verdict stands (`ends`). The same one again is
answered as success and delivers nothing; another one is refused. Java delivers again each time. An answer leaves when
what it says is as safe as a send's would be.

Mirrors: EndTransactionProcessor, AdminBrokerProcessor.resumeCheckHalfMessage.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import Final

from cometmq.broker.config import BrokerConfig
from cometmq.broker.durability import Durability
from cometmq.broker.inner_reader import InnerReader
from cometmq.broker.role import SLAVE
from cometmq.broker.transaction.ends import VERDICTS, Ends
from cometmq.broker.transaction.half import Half
from cometmq.broker.transaction.service import Transactions
from cometmq.broker.transaction.window import State
from cometmq.clock import Clock
from cometmq.errors import CometError, ProtocolError, RequestRefused
from cometmq.model import names, properties
from cometmq.net.routes import LATER, Call, Later, handles
from cometmq.store.engine import Store
from cometmq.wire.message_id import parse_offset_id
from cometmq.wire.record import Record
from cometmq.wire.requests.extensions import Ended
from cometmq.wire.requests.transaction import EndTransaction, ResumeCheckHalfMessage

UNKNOWN: Final = 0


class TransactionHandlers:
    """Lets producers end what they began, and admins take up what was given up."""

    def __init__(
        self,
        config: BrokerConfig,
        store: Store,
        reader: InnerReader,
        durability: Durability,
        transactions: Transactions,
        ends: Ends,
        clock: Clock,
    ) -> None:
        self._is_slave = config.broker_role == SLAVE
        self._timeout_ms = config.transaction_time_out
        self._store = store
        self._reader = reader
        self._durability = durability
        self._transactions = transactions
        self._ends = ends
        self._clock = clock

    @handles(EndTransaction)
    def end(self, request: EndTransaction, call: Call) -> Later | Coroutine[object, object, None]:
        if self._is_slave:
            raise RequestRefused("SLAVE_NOT_AVAILABLE", "A slave ends no transactions: ask its master")
        if request.commit_or_rollback == UNKNOWN:
            return LATER  # nothing is decided, and Java says nothing
        verdict = VERDICTS.get(request.commit_or_rollback)
        if verdict is None:
            raise RequestRefused("SYSTEM_ERROR", "commitOrRollback field wrong: 0, 8 and 12 are known")
        record = self._reader.record_at(request.commit_log_offset)
        if record is None:
            raise RequestRefused("SYSTEM_ERROR", "Find prepared transaction message failed")
        found = record.properties
        if not request.from_transaction_check:
            self._refuse_late(record, found.get(properties.CHECK_IMMUNITY_TIME_IN_SECONDS))
        half = self._checked(record, found, request)
        ended = self._ends.end(half, verdict)
        if ended is Ended.NOBODY_KNOWS:
            return self._end_again(half, verdict, call)
        self._answer(ended, half, call)
        return LATER

    async def _end_again(self, half: Half, verdict: State, call: Call) -> None:
        self._answer(await self._ends.tell(half, verdict), half, call)

    def _answer(self, ended: Ended, half: Half, call: Call) -> None:
        if ended is not Ended.AS_ASKED:
            before = self._transactions.window.state_of(half.root)
            how = before.name.lower().replace("_", " ") if before < State.ENDED else "ended"
            raise RequestRefused("ILLEGAL_OPERATION", f"The transaction is {how} already; nothing was changed")
        self._reply_when_safe(self._ends.safe_offset, call)

    def _refuse_late(self, record: Record, text: str | None) -> None:
        """A producer that asked for immunity has that long to end by itself; then it must wait to be asked."""
        if text:
            seconds = int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else 0
            if self._clock.now_ms() - record.born_time_ms > max(seconds * 1000, self._timeout_ms):
                raise RequestRefused(
                    "ILLEGAL_OPERATION", f"{properties.CHECK_IMMUNITY_TIME_IN_SECONDS} is over: wait for the check"
                )

    def _checked(self, record: Record, found: dict[str, str], request: EndTransaction) -> Half:
        group = found.get(properties.PRODUCER_GROUP)
        if group is not None and group != request.producer_group:
            raise RequestRefused("SYSTEM_ERROR", "The producer group wrong")
        if group is not None and record.queue_offset != request.tran_state_table_offset:
            raise RequestRefused("SYSTEM_ERROR", "The transaction state table offset wrong")
        half = Half.read(record, found)
        if group is None or half is None:
            raise RequestRefused("SYSTEM_ERROR", f"What stands at {request.commit_log_offset} is not a half message")
        return half

    def _reply_when_safe(self, end_offset: int, call: Call) -> None:
        def settle(fault: BaseException | None) -> None:
            if fault is None:
                call.reply()
            else:
                call.refuse(fault if isinstance(fault, CometError) else RequestRefused("SYSTEM_ERROR", str(fault)))

        self._durability.when_safe(end_offset, settle)

    @handles(ResumeCheckHalfMessage)
    async def resume(self, request: ResumeCheckHalfMessage, call: Call) -> Later:
        half = self._given_up(request.msg_id or "")
        if await self._ends.was_its_like_delivered(half):
            raise RequestRefused("SYSTEM_ERROR", "The transaction was committed: it cannot be checked again")
        half = self._given_up(request.msg_id or "")  # again: time has passed
        if self._transactions.window.state_of(half.root) in (State.COMMITTED, State.ROLLED_BACK):
            raise RequestRefused("SYSTEM_ERROR", "The transaction has ended: it cannot be checked again")
        self._reply_when_safe(self._transactions.resume(half), call)
        return LATER

    def _given_up(self, msg_id: str) -> Half:
        """The transaction that a message id names, in the half topic or where those checked too often are kept."""
        try:
            record = self._reader.record_at(parse_offset_id(msg_id)[1])
        except ProtocolError as wrong:
            raise RequestRefused("SYSTEM_ERROR", f"Nothing can be put back to {names.HALF_TOPIC}: {wrong}") from None
        half = None
        if record is not None and record.topic in (names.HALF_TOPIC, names.CHECK_MAX_TIME_TOPIC):
            if record.topic == names.CHECK_MAX_TIME_TOPIC:
                # Of one that Java gave up, no first copy is known: it becomes a transaction of its own.
                own = self._store.next_offset(names.HALF_TOPIC, record.queue_id)
                record = replace(record, topic=names.HALF_TOPIC, queue_offset=own)
            half = Half.read(record)
        if half is None:
            raise RequestRefused(
                "SYSTEM_ERROR", f"{msg_id} is neither a half message nor one of {names.CHECK_MAX_TIME_TOPIC}"
            )
        return half
