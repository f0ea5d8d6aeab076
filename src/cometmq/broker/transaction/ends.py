"""Verdicts: a transaction is ended once, and whoever says the same again is told that it is so.

What happened since this broker started is in the window. Of what ended before, the log tells: a delivered message names
the half message that it was made from, and the index finds it by its unique key. So an end may be repeated as often as
its producer likes, also after the broker was killed, for as long as the half message itself is in the log.

Invariant: between looking at a transaction's state and storing what follows from it there is no await.
Bounds: the index is asked for `SEARCH_COUNT` messages of one unique key; more than that, and nobody knows.

Mirrors: nothing; Java delivers again each time.
"""

from __future__ import annotations

import asyncio
from typing import Final

from cometmq.broker.transaction.half import Half
from cometmq.broker.transaction.recovery import made_from
from cometmq.broker.transaction.service import Transactions
from cometmq.broker.transaction.window import State
from cometmq.model import properties
from cometmq.model.sysflag import TRANSACTION_MASK, MessageFlag
from cometmq.store.engine import Store
from cometmq.wire.record import Record, decode_record
from cometmq.wire.requests.extensions import Ended

VERDICTS: Final = {
    int(MessageFlag.TRANSACTION_COMMIT): State.COMMITTED,
    int(MessageFlag.TRANSACTION_ROLLBACK): State.ROLLED_BACK,
}
SEARCH_COUNT: Final = 256
TIME_MAX: Final = (1 << 63) - 1


class Ends:
    """Ends transactions; what it answers may be told when everything before `safe_offset` is safe."""

    def __init__(self, store: Store, transactions: Transactions) -> None:
        self._store = store
        self._transactions = transactions
        self.safe_offset = 0  # of the log, behind the last verdict

    def end(self, half: Half, verdict: State) -> Ended:
        """Give a verdict; NOBODY_KNOWS where only `tell` can find out whether it was given before."""
        transactions = self._transactions
        before = transactions.window.state_of(half.root)
        if before is State.OPEN:
            end = transactions.commit if verdict is State.COMMITTED else transactions.roll_back
            self.safe_offset = end(half)
        elif before is not verdict:
            return Ended.NOBODY_KNOWS if before >= State.ENDED else Ended.OTHERWISE
        elif verdict is State.ROLLED_BACK:  # it may have failed before, halfway
            self.safe_offset = max(self.safe_offset, transactions.written_down())
        return Ended.AS_ASKED

    async def tell(self, half: Half, verdict: State) -> Ended:
        """How a transaction ended that ended long ago, measured by what is asked for."""
        delivered = await self.was_delivered(half)
        if delivered is None:
            return Ended.NOBODY_KNOWS
        return Ended.AS_ASKED if delivered is (verdict is State.COMMITTED) else Ended.OTHERWISE

    async def was_delivered(self, half: Half) -> bool | None:
        """Ask the index whether this very transaction's message is in its topic; None if it cannot tell."""
        found = await self._found(half)
        if found is None:
            return None
        for record in found:
            made = made_from(self._store, record, record.prepared_offset)
            if made is not None and made.root == half.root:
                return True
        return None if len(found) >= SEARCH_COUNT else False

    async def was_its_like_delivered(self, half: Half) -> bool:
        """The same where no place of the half message is known, by unique key and body alone."""
        uniq_key, crc = half.properties.get(properties.UNIQ_KEY), half.record.body_crc
        found = await self._found(half) or ()
        return any(one.body_crc == crc and one.properties.get(properties.UNIQ_KEY) == uniq_key for one in found)

    async def _found(self, half: Half) -> list[Record] | None:
        """Committed messages that the index knows by the unique key (hashes can meet); None if it knows nothing."""
        uniq_key = half.properties.get(properties.UNIQ_KEY)
        store = self._store
        if not uniq_key or not store.config.message_index_enable:
            return None
        store.settle_index()
        offsets = await asyncio.to_thread(store.search, half.real_topic, uniq_key, SEARCH_COUNT, 0, TIME_MAX)
        records = [decode_record(store.slices([place])[0]) for place in store.places(offsets)]
        return [one for one in records if one.sys_flag & TRANSACTION_MASK == MessageFlag.TRANSACTION_COMMIT]
