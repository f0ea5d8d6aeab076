"""What was open when the broker stopped, read from the store alone.

1.  op messages from the saved progress on name the copies that are closed;
2.  of the copies that are left, the last of each transaction counts, and the others were moved (that an op message
    names an earlier copy says nothing: those that were moved are named, too);
3.  the log from the first of those on is walked: a delivered or given-up message names, as its prepared offset, the
    place of the half message that it was made from, so that one is closed though no op message says it.

The third is what Java leaves out: it would check such a transaction again, and deliver it twice. Java's messages
carry the same prepared offset, so its stores gain from it too. The walk is as long as the oldest open copy is old: at
most about `transactionTimeOut` + `transactionCheckInterval`, because a check moves it to the end; where a patient one
is open, at most half of its age, or about `PATIENT_LOG_MAX` bytes (`checks`).

Mirrors: nothing; Java begins with its saved offsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from cometmq.broker.loading import read_patiently
from cometmq.broker.offsets import Offsets
from cometmq.broker.transaction.half import QUEUE_ID, Half
from cometmq.broker.transaction.ops import named_in
from cometmq.broker.transaction.service import GROUP, Transactions
from cometmq.broker.transaction.window import HalfWindow, State
from cometmq.model import names
from cometmq.model.sysflag import TRANSACTION_MASK, MessageFlag
from cometmq.store.engine import Store
from cometmq.wire.record import HEADS, SYS_FLAG_AT, Record, decode_record

READ_COUNT: Final = 32

_SYS_FLAG: Final = Struct(">i")
_PREPARED_OFFSET: Final = 13  # among the fields of a record's head


def recover(store: Store, offsets: Offsets, transactions: Transactions) -> None:
    """Fill the window with what is known of it."""
    base = saved_offset(store, offsets, names.HALF_TOPIC)
    transactions.window = window = HalfWindow(base)
    ops = transactions.ops
    named: set[int] = set()
    ops.next_offset = saved_offset(store, offsets, names.HALF_OP_TOPIC)
    for record in records_of(store, names.HALF_OP_TOPIC, ops.next_offset):
        closed = list(named_in(record))
        ops.seen(record.queue_offset, closed)
        named.update(closed)
    for offset in named:
        if base <= offset:
            window.close(offset, State.ENDED)
    walk_from = _open_copies(store, transactions, named)
    if walk_from is not None:
        _walk(store, walk_from, transactions)
    ops.end_offset = store.written_offset  # what was found may be in no safer place than the system's memory
    ops.write()
    transactions.move_on()


def _open_copies(store: Store, transactions: Transactions, named: set[int]) -> int | None:
    """Find the latest copies; returns the place of the first one in the log."""
    window = transactions.window
    first: int | None = None
    for record in records_of(store, names.HALF_TOPIC, window.base):
        offset = record.queue_offset
        if offset in named:
            continue
        half = Half.read(record)
        if half is None:
            transactions.drop(offset)
            continue
        if first is None:
            first = record.physical_offset
        if half.root == offset:
            continue
        old_offset = window.latest_of(half.root)
        still_open = window.state(old_offset) is State.OPEN
        window.move(half.root, offset)
        if still_open:
            transactions.ops.add(old_offset)
    return first


def _walk(store: Store, start: int, transactions: Transactions) -> None:
    """Close what was delivered or given up behind `start`."""
    window = transactions.window
    for half, committed in delivered_halves(store, start):
        if window.state_of(half.root) is State.OPEN:
            latest = window.latest_of(half.root)
            window.close(latest, State.COMMITTED if committed else State.DISCARDED)
            transactions.ops.add(latest)


def delivered_halves(store: Store, start: int) -> Iterator[tuple[Half, bool]]:
    """The half messages that something behind `start` of the log was made from, and whether that is a commit."""
    segment_size = store.config.mapped_file_size_commit_log
    at, end = start, store.written_offset
    while at < end:
        view = store.record_at(at)
        if view is None:  # the blank rest of a segment
            at = (at // segment_size + 1) * segment_size
            continue
        sys_flag = _SYS_FLAG.unpack_from(view, SYS_FLAG_AT)[0]
        prepared_offset = HEADS[sys_flag & 0x30].unpack_from(view, 0)[_PREPARED_OFFSET]
        committed = sys_flag & TRANSACTION_MASK == MessageFlag.TRANSACTION_COMMIT
        if committed or prepared_offset > 0:
            half = made_from(store, decode_record(view), prepared_offset)
            if half is not None:
                yield half, committed
        at += len(view)


def made_from(store: Store, record: Record, prepared_offset: int) -> Half | None:
    """The half message that a record was made from, if it was; a producer may have sent any flag."""
    if not 0 <= prepared_offset < record.physical_offset:
        return None
    found = store.record_at(prepared_offset)
    half = None if found is None else Half.read(decode_record(found))
    if half is None or half.record.body_crc != record.body_crc:
        return None
    return half if record.topic in (half.real_topic, names.CHECK_MAX_TIME_TOPIC) else None


def saved_offset(store: Store, offsets: Offsets, topic: str) -> int:
    """The saved progress, within what the queue has: a power cut may have taken its end, retention its begin."""
    low, high = store.min_offset(topic, QUEUE_ID), store.max_offset(topic, QUEUE_ID)
    saved = offsets.query(GROUP, topic, QUEUE_ID)
    return low if saved is None else max(low, min(saved, high))


def records_of(store: Store, topic: str, offset: int) -> Iterator[Record]:
    while True:
        found, pieces = read_patiently(store, topic, QUEUE_ID, offset, READ_COUNT)
        for piece in pieces:
            yield decode_record(piece)
        if found.next_offset <= offset:
            return
        offset = found.next_offset
