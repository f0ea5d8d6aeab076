"""Transactions: a message that is delivered if, and only if, a local piece of work succeeded.

    half message ──> broker      prepared: stored, and seen by nobody
    local work
    commit or rollback ──> broker        or, if that never comes:  broker ── "how did it end?" (39) ──> checker

The broker asks any producer of the group, also one of another process, so a checker must find the answer in what the
work left behind (a row in a table), not in this process's memory.

Mirrors: DefaultMQProducerImpl (sendMessageInTransaction, endTransaction, checkTransactionState), TransactionListener.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from enum import Enum
from typing import Final

from cometmq.client.message import Message, Receipt, ReceivedMessage, SendStatus, property_text
from cometmq.client.preparing import Preparer
from cometmq.client.send_hooks import TransactionEnd
from cometmq.client.sender import Sender
from cometmq.errors import InvalidMessage, PeerError, ProtocolError
from cometmq.model import properties
from cometmq.model.sysflag import MessageFlag
from cometmq.net.channel import Channel
from cometmq.wire.message_id import parse_offset_id
from cometmq.wire.requests.transaction import CheckTransactionState, EndTransaction

log = logging.getLogger("cometmq.client")


class Decision(Enum):
    """How a transaction ended; UNKNOWN lets the broker ask again later."""

    COMMIT = int(MessageFlag.TRANSACTION_COMMIT)
    ROLLBACK = int(MessageFlag.TRANSACTION_ROLLBACK)
    UNKNOWN = 0


Checker = Callable[[ReceivedMessage], "Decision | Awaitable[Decision]"]
Executor = Callable[[Message], "Decision | Awaitable[Decision]"]
_STATES: Final = {  # LocalTransactionState's names
    Decision.COMMIT: "COMMIT_MESSAGE",
    Decision.ROLLBACK: "ROLLBACK_MESSAGE",
    Decision.UNKNOWN: "UNKNOW",
}
_PREPARED: Final = int(MessageFlag.TRANSACTION_PREPARED)


class Transaction:
    """A transaction that is open; `rollback()` ends it without raising."""

    def __init__(self, receipt: Receipt) -> None:
        self.receipt = receipt
        self.decision = Decision.COMMIT

    @property
    def transaction_id(self) -> str:
        return self.receipt.message_id

    def rollback(self) -> None:
        """Never deliver it; takes effect when the block ends."""
        self.decision = Decision.ROLLBACK

    def leave_open(self) -> None:
        """Let the broker ask later."""
        self.decision = Decision.UNKNOWN


async def _begin(preparer: Preparer, message: Message) -> Receipt:
    text = f"{properties.TRANSACTION_PREPARED}\x01true\x02{properties.PRODUCER_GROUP}\x01{preparer.sender.group}\x02"
    if message.priority is not None:
        raise InvalidMessage("a message of a transaction has no priority")
    queue = await preparer.pin(message) if message.sharding_key is not None else None
    sending = await preparer.prepare(message, text, sys_flag=_PREPARED, queue=queue)
    receipt: Receipt = await (await preparer.sender.post(sending))
    return receipt


async def post_half(
    preparer: Preparer, message: Message, owner: str, mark: str, unique_key: str | None
) -> asyncio.Future[Receipt]:
    """Put a patient half message of another producer group on its way."""
    text = (
        f"{properties.TRANSACTION_PREPARED}\x01true\x02{properties.PRODUCER_GROUP}\x01{owner}\x02"
        f"{properties.PATIENCE_MARK}\x01{mark}\x02"
    )
    queue = await preparer.pin(message) if message.sharding_key is not None else None
    sending = await preparer.prepare(message, text, sys_flag=_PREPARED, queue=queue, unique_key=unique_key)
    return await preparer.sender.post(sending)


async def _end(sender: Sender, message: Message, receipt: Receipt, decision: Decision) -> None:
    """Tell the broker. If that fails it asks the checker, so a failure here is none of the transaction."""
    if sender.hooks:
        known = properties.parse(property_text(message, receipt.message_id))
        broker = sender.instance.routes.address(receipt.broker_name)
        _tell_hooks(sender, message.topic, receipt.message_id, known, broker, decision)
    try:
        _, physical_offset = parse_offset_id(receipt.offset_message_id)
        request = EndTransaction(
            tran_state_table_offset=receipt.queue_offset,
            commit_log_offset=physical_offset,
            commit_or_rollback=decision.value,
            producer_group=sender.group,
            msg_id=receipt.message_id,
            transaction_id=receipt.transaction_id,
            topic=message.topic,
        )
        if decision is Decision.UNKNOWN:  # brokers answer nothing to it
            (await sender.instance.channel(receipt.broker_name)).notify(request)
        else:
            await sender.instance.call(receipt.broker_name, request)
    except (PeerError, ProtocolError) as fault:
        log.warning(
            "transaction %s: %s was not taken, the broker will ask: %s", receipt.message_id, decision.name, fault
        )


@asynccontextmanager
async def scope(preparer: Preparer, message: Message) -> AsyncIterator[Transaction]:
    """Prepare, run the block, commit; a block that raises rolls back."""
    sender = preparer.sender
    receipt = await _begin(preparer, message)
    opened = Transaction(receipt)
    if receipt.status is not SendStatus.OK:
        await _end(sender, message, receipt, Decision.ROLLBACK)
        raise InvalidMessage(f"the half message was not stored safely ({receipt.status}); it was rolled back")
    try:
        yield opened
    except BaseException:
        await _end(sender, message, receipt, Decision.ROLLBACK)
        raise
    await _end(sender, message, receipt, opened.decision)


async def run(preparer: Preparer, message: Message, execute: Executor) -> tuple[Receipt, Decision]:
    """Prepare, let `execute` decide, and end it."""
    sender = preparer.sender
    receipt = await _begin(preparer, message)
    decision = Decision.ROLLBACK
    if receipt.status is SendStatus.OK:
        decision = Decision.UNKNOWN
        try:
            decision = await _decided(execute(message))
        finally:
            await _end(sender, message, receipt, decision)
    else:
        await _end(sender, message, receipt, decision)
    return receipt, decision


async def check(
    sender: Sender, checker: Checker, request: CheckTransactionState, message: ReceivedMessage, asker: Channel
) -> None:
    """Answer a broker that asks how a transaction ended; a checker that fails leaves it open."""
    try:
        decision = await _decided(checker(message))
    except Exception:
        log.exception("the checker failed for transaction %s; the broker will ask again", message.message_id)
        decision = Decision.UNKNOWN
    answer = EndTransaction(
        tran_state_table_offset=request.tran_state_table_offset,
        commit_log_offset=request.commit_log_offset,
        commit_or_rollback=decision.value,
        producer_group=sender.group,
        from_transaction_check=True,
        msg_id=message.message_id,
        transaction_id=request.transaction_id,
        topic=message.topic,
    )
    if sender.hooks:
        known = message.properties
        _tell_hooks(sender, message.topic, message.message_id, known, asker.peer, decision, is_check=True)
    asker.notify(answer)


def _tell_hooks(
    sender: Sender,
    topic: str,
    message_id: str,
    known: Mapping[str, str],
    broker: str | None,
    decision: Decision,
    *,
    is_check: bool = False,
) -> None:
    end = TransactionEnd(topic, message_id, known, broker, _STATES[decision], is_check)
    for hook in sender.hooks:
        hook.transaction_ended(end)


async def _decided(found: Decision | Awaitable[Decision]) -> Decision:
    decision = await found if inspect.isawaitable(found) else found
    if not isinstance(decision, Decision):
        raise TypeError(f"a Decision is expected, not {decision!r:.80}")
    return decision
