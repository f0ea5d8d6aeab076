"""Ending transactions, asking how they ended, and taking up again what was checked too often.

Mirrors: EndTransactionRequestHeader, CheckTransactionStateRequestHeader, ResumeCheckHalfMessageRequestHeader.
"""

from __future__ import annotations

from cometmq.wire.codes import RequestCode
from cometmq.wire.schema import Header, Int32, named, request


@request(RequestCode.END_TRANSACTION)
class EndTransaction(Header):
    """`commit_or_rollback` is the transaction part of a message's sysFlag."""

    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: Int32
    producer_group: str | None = None
    from_transaction_check: bool = False
    msg_id: str | None = None
    transaction_id: str | None = None
    topic: str | None = None


@request(RequestCode.CHECK_TRANSACTION_STATE)
class CheckTransactionState(Header):
    """Sent by the broker to a producer of the group, one-way; the body is the half message as a record."""

    tran_state_table_offset: int
    commit_log_offset: int
    topic: str | None = None  # brokers before 5 do not say it
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    broker_name: str | None = named("bname", default=None)


@request(RequestCode.RESUME_CHECK_HALF_MESSAGE)
class ResumeCheckHalfMessage(Header):
    msg_id: str | None = None
    topic: str | None = None
