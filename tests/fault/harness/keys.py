"""The index, asked for every acknowledged message by its unique key."""

from __future__ import annotations

import asyncio
from typing import Final

from cometmq.net.pool import connect
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import decode_records
from cometmq.wire.requests.query import QueryMessage

from .ledger import SEND_OK
from .traffic import TIMEOUT_MS, Traffic

QUERIES_AT_ONCE: Final = 50


async def wrong_keys(address: str, traffic: Traffic, *, again: int = 0) -> list[str]:
    """What was acknowledged is found by its key, each message once, but for so many that may be found `again`.

    After a kill the original indexes the last message that was in the index once more (IndexService.buildIndex).
    """
    names = [name for name, promise in traffic.ledger.promised.items() if promise.status == SEND_OK]
    channel = await connect(address, timeout_ms=TIMEOUT_MS)

    async def bodies_of(name: str) -> list[str]:
        query = QueryMessage(topic=traffic.topic, key=name, max_num=8, begin_timestamp=0, end_timestamp=1 << 42)
        answer = await channel.exchange(query.command(), timeout_ms=TIMEOUT_MS)
        found = decode_records(bytes(answer.body)) if answer.code == ResponseCode.SUCCESS else []
        return [record.body.split(b".")[0].decode() for record in found]

    found: dict[str, list[str]] = {}
    for first in range(0, len(names), QUERIES_AT_ONCE):
        some = names[first : first + QUERIES_AT_ONCE]
        found.update(zip(some, await asyncio.gather(*map(bodies_of, some)), strict=True))
    channel.close()
    return wrongly_found(found, again=again)


def wrongly_found(found: dict[str, list[str]], *, again: int) -> list[str]:
    """What is wrong with the bodies that each name has found."""
    faults = [f"{name} finds {bodies}" for name, bodies in found.items() if set(bodies) != {name}]
    twice = [name for name, bodies in found.items() if bodies == [name, name]]
    more = [name for name, bodies in found.items() if len(bodies) > 2]
    return faults + [f"{name} is found more than once" for name in [*twice[again:], *more]]
