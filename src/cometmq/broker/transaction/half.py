"""The shapes of a transaction's message: half, stored again for a check, delivered, given up.

    producer's      topic T, queue q       TRAN_MSG=true PGROUP UNIQ_KEY
    half            RMQ_SYS_TRANS_HALF_TOPIC, queue 0
                                           + REAL_TOPIC=T REAL_QID=q __transactionId__=UNIQ_KEY; sysFlag: no transaction
    checked         the same topic         + TRANSACTION_CHECK_TIMES=n TRAN_PREPARED_QUEUE_OFFSET=root
    delivered       topic T, queue q       - REAL_TOPIC REAL_QID __COMET_PATIENT
                                           sysFlag: commit; prepared offset: the half's place
    given up        TRANS_CHECK_MAX_TIME_TOPIC, queue 0; as checked; prepared offset: the half's place

The prepared offset tells, after a kill, which half messages were delivered already: see `recovery`. A delayed
transaction does not exist: the delay is taken off, as the clients do it (Java's broker would lose the message).

Mirrors: TransactionalMessageBridge.parseHalfMessageInner, renewHalfMessageInner,
EndTransactionProcessor.endMessageTransaction, DefaultTransactionalMessageCheckListener.toMessageExtBrokerInner.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, overload

from cometmq.broker.inner_messages import InnerMessage
from cometmq.model import names, properties
from cometmq.model.sysflag import TRANSACTION_MASK, MessageFlag
from cometmq.wire.record import Record

QUEUE_ID: Final = 0  # half messages and their ends have one queue each
DELAYS: Final = (properties.DELAY, *properties.TIMER_WISHES)
ONLY_OF_HALVES: Final = (
    properties.REAL_TOPIC,
    properties.REAL_QUEUE_ID,
    properties.TRANSACTION_PREPARED_QUEUE_OFFSET,
    properties.PATIENCE_MARK,
)

_WHOLE: Final = re.compile(r"\d{1,18}")


def is_half(message: InnerMessage) -> bool:
    """Whether a producer's message opens a transaction; clients before 4.6.1 sent such ones back with its mark."""
    found = message.properties
    again = message.reconsume_times > 0 and whole(found.get(properties.DELAY), 0) > 0
    return found.get(properties.TRANSACTION_PREPARED, "").lower() == "true" and not again


def make_half(message: InnerMessage) -> None:
    """Send a producer's message to the half topic."""
    found = message.properties
    for key in DELAYS:
        found.pop(key, None)
    found.pop(properties.TRANSACTION_PREPARED_QUEUE_OFFSET, None)  # it would join this transaction to another one
    if found.get(properties.UNIQ_KEY):
        found[properties.TRANSACTION_ID] = found[properties.UNIQ_KEY]
    found[properties.REAL_TOPIC] = message.topic
    found[properties.REAL_QUEUE_ID] = str(message.queue_id)
    message.sys_flag &= ~TRANSACTION_MASK
    message.topic, message.queue_id = names.HALF_TOPIC, QUEUE_ID


@dataclass(slots=True, frozen=True)
class Half:
    """A stored half message, read."""

    record: Record
    properties: dict[str, str]
    real_topic: str
    real_queue_id: int
    root: int  # offset of the transaction's first copy

    @classmethod
    def read(cls, record: Record, found: dict[str, str] | None = None) -> Half | None:
        """None if the record is no half message; `found` are its properties, where they were read already."""
        found = record.properties if found is None else found
        topic, queue_id = found.get(properties.REAL_TOPIC), whole(found.get(properties.REAL_QUEUE_ID))
        if record.topic != names.HALF_TOPIC or topic is None or queue_id is None or names.topic_fault(topic):
            return None
        root = whole(found.get(properties.TRANSACTION_PREPARED_QUEUE_OFFSET), record.queue_offset)
        return cls(record, found, topic, queue_id, min(root, record.queue_offset))

    @property
    def check_times(self) -> int | None:
        """How often it was checked; None if never. A text that is no number counts as fewer than any."""
        text = self.properties.get(properties.TRANSACTION_CHECK_TIMES)
        return None if text is None else whole(text, -1)

    def immunity_ms(self, otherwise_ms: int) -> int | None:
        """How long its producer wants it to be left alone; None if it did not say."""
        text = self.properties.get(properties.CHECK_IMMUNITY_TIME_IN_SECONDS)
        if text is None:
            return None
        seconds = whole(text)
        return otherwise_ms if seconds is None else seconds * 1000

    @property
    def is_patient(self) -> bool:
        """Whether its producer asks for it not to be given up while nobody is there to be asked."""
        return properties.PATIENCE_MARK in self.properties

    def again(self, *, check_times: int | None) -> InnerMessage:
        """The same behind the others; with a count, one check later."""
        found = dict(self.properties)
        if check_times is not None:
            found[properties.TRANSACTION_CHECK_TIMES] = str(check_times)
        found[properties.TRANSACTION_PREPARED_QUEUE_OFFSET] = str(self.root)
        message = InnerMessage.of(self.record)
        message.properties = found
        return message

    def delivered(self) -> InnerMessage:
        """What consumers get."""
        message = InnerMessage.of(self.record)
        message.properties = found = dict(self.properties)
        for key in ONLY_OF_HALVES:
            found.pop(key, None)
        message.topic, message.queue_id = self.real_topic, self.real_queue_id
        message.sys_flag = self.record.sys_flag & ~TRANSACTION_MASK | MessageFlag.TRANSACTION_COMMIT
        message.prepared_offset = self.record.physical_offset
        return message

    def given_up(self) -> InnerMessage:
        """What is kept of a transaction that nobody ended."""
        message = InnerMessage.of(self.record)
        linked = {**self.properties, properties.TRANSACTION_PREPARED_QUEUE_OFFSET: str(self.root)}
        if len(properties.render(linked).encode()) <= properties.PROPERTIES_SIZE_MAX:
            message.properties = linked
        message.topic, message.queue_id = names.CHECK_MAX_TIME_TOPIC, QUEUE_ID
        message.prepared_offset = self.record.physical_offset
        return message


@overload
def whole(text: str | None) -> int | None: ...
@overload
def whole(text: str | None, otherwise: int) -> int: ...
def whole(text: str | None, otherwise: int | None = None) -> int | None:
    """A text as a number; negative ones are none here."""
    return int(text) if text is not None and _WHOLE.fullmatch(text) else otherwise
