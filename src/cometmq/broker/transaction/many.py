"""END_TRANSACTIONS (30001), CometMQ's own: one verdict for many half messages, each answered by a byte of its own.

They are ended in the order in which they are named, so what is delivered stands in that order, too. Others have their
turn after every `TURN_COUNT` of them. All or nothing is not promised: who is not answered asks again, which is harmless
(`ends`), and END_TRANSACTIONS is meant for those who have written down what they ask for.

Mirrors: nothing.
"""

from __future__ import annotations

import asyncio
from typing import Final

from cometmq.broker.durability import Durability
from cometmq.broker.inner_reader import InnerReader
from cometmq.broker.transaction.ends import VERDICTS, Ends
from cometmq.broker.transaction.half import Half
from cometmq.broker.transaction.window import State
from cometmq.errors import RequestRefused
from cometmq.model import properties
from cometmq.net.routes import LATER, Call, Later, handles
from cometmq.wire.bodies.positions import ENDS_MAX, Position, unpack_positions
from cometmq.wire.requests.extensions import Ended, EndTransactions

TURN_COUNT: Final = 64


class ManyHandlers:
    """Ends many at once."""

    def __init__(self, reader: InnerReader, durability: Durability, ends: Ends, *, is_slave: bool = False) -> None:
        self._reader = reader
        self._durability = durability
        self._ends = ends
        self._is_slave = is_slave

    @handles(EndTransactions)
    async def end_many(self, request: EndTransactions, call: Call) -> Later:
        if self._is_slave:
            raise RequestRefused("SLAVE_NOT_AVAILABLE", "A slave ends no transactions: ask its master")
        verdict = VERDICTS.get(request.commit_or_rollback)
        if verdict is None:
            raise RequestRefused("SYSTEM_ERROR", "commitOrRollback field wrong: 8 and 12 are known")
        positions = unpack_positions(bytes(call.body), ENDS_MAX)
        answers = bytearray()
        for start in range(0, len(positions), TURN_COUNT):
            for position in positions[start : start + TURN_COUNT]:
                answers.append(await self._end_one(request, verdict, position))
            await asyncio.sleep(0)
        await self._durability.safe(self._ends.safe_offset)
        call.reply(body=bytes(answers))
        return LATER

    async def _end_one(self, request: EndTransactions, verdict: State, position: Position) -> Ended:
        record = self._reader.record_at(position.physical_offset)
        half = None if record is None else Half.read(record)
        if half is None or half.record.queue_offset != position.queue_offset:
            return Ended.NOTHING_THERE
        found = half.properties
        if found.get(properties.PRODUCER_GROUP) != request.producer_group:
            return Ended.NOT_YOURS
        if request.mark is not None and found.get(properties.PATIENCE_MARK) != request.mark:
            return Ended.NOT_YOURS
        ended = self._ends.end(half, verdict)
        return await self._ends.tell(half, verdict) if ended is Ended.NOBODY_KNOWS else ended
