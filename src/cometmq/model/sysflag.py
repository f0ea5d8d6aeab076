"""Bits of a message's `sysFlag`, a pull request's `sysFlag` and a topic's permission.

Mirrors: MessageSysFlag, PullSysFlag, PermName.
"""

from __future__ import annotations

from enum import IntFlag


class MessageFlag(IntFlag):
    """`sysFlag` of a stored message; bits 2-3 are the transaction state, 8-10 the compression codec."""

    COMPRESSED = 0x1
    MULTI_TAGS = 0x2
    TRANSACTION_PREPARED = 0x4
    TRANSACTION_COMMIT = 0x8
    TRANSACTION_ROLLBACK = 0xC
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    NEED_UNWRAP = 0x40
    INNER_BATCH = 0x80


TRANSACTION_MASK = int(MessageFlag.TRANSACTION_ROLLBACK)
# What prepared and rolled back have in common: such a message takes no place in its queue.
TRANSACTION_UNSEEN = int(MessageFlag.TRANSACTION_PREPARED)


class PullFlag(IntFlag):
    """`sysFlag` of a pull request."""

    COMMIT_OFFSET = 0x1
    SUSPEND = 0x2
    SUBSCRIPTION = 0x4
    CLASS_FILTER = 0x8
    LITE_PULL = 0x10


class Perm(IntFlag):
    """Permission of a topic or a broker."""

    INHERIT = 0x1
    WRITE = 0x2
    READ = 0x4
    PRIORITY = 0x8


READ_WRITE = int(Perm.READ | Perm.WRITE)
