"""What CometMQ answers and Apache RocketMQ 5.5.0 does not know: which extensions there are, and ending many
transactions at once.

    END_TRANSACTIONS   body: places of half messages (`bodies/positions.py`)
                       answer's body: one byte for each of them, in their order: an `Ended`

Mirrors: nothing.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from cometmq.wire.codes import RequestCode
from cometmq.wire.schema import Header, Int32, request

# Transactions can be ended many at once, again and again, also after the broker was killed; and half messages that
# carry PATIENCE_MARK are not given up while nobody of their producer group is connected.
SURE_ENDS: Final = "sureEnds"


class Ended(IntEnum):
    """What became of one of the many."""

    AS_ASKED = 0  # now or before
    OTHERWISE = 1  # before; nothing was changed
    NOTHING_THERE = 2  # no half message stands at that place, or not any more
    NOT_YOURS = 3  # it is of another producer group, or carries another mark
    NOBODY_KNOWS = 4  # it ended before the broker started, and the index cannot tell how


class GetExtensionsReply(Header):
    """Names, divided by commas."""

    extensions: str


@request(RequestCode.GET_EXTENSIONS, reply=GetExtensionsReply)
class GetExtensions(Header):
    pass


@request(RequestCode.END_TRANSACTIONS)
class EndTransactions(Header):
    """`mark` is the PATIENCE_MARK that all of them must carry, where one is given."""

    producer_group: str
    commit_or_rollback: Int32
    mark: str | None = None
