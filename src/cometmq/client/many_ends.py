"""Ending many transactions at once: what CometMQ's brokers offer and Apache RocketMQ's do not.

Who uses it has written down beforehand what it is going to say, and says it until it is told that it is so: an end may
be repeated over restarts of either side.

Mirrors: nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from cometmq.client.instance import ClientInstance
from cometmq.client.transaction import Decision
from cometmq.errors import PeerRefused, ProtocolError
from cometmq.wire.bodies.positions import ENDS_MAX, Position, pack_positions
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.extensions import Ended, EndTransactions, GetExtensions, GetExtensionsReply


async def extensions(instance: ClientInstance, broker_name: str) -> frozenset[str]:
    """What a broker offers beyond Apache RocketMQ."""
    answer = await instance.exchange(broker_name, GetExtensions())
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return frozenset()
    if answer.code != ResponseCode.SUCCESS:
        raise PeerRefused(answer.code, answer.remark or "", f"broker {broker_name}")
    return frozenset(GetExtensionsReply.read(answer.ext).extensions.split(",")) - {""}


async def end_many(
    instance: ClientInstance,
    broker_name: str,
    group: str,
    decision: Decision,
    positions: Sequence[Position],
    *,
    mark: str | None = None,
    timeout_ms: int | None = None,
) -> list[Ended]:
    """End the half messages at these places, in this order; at most `ENDS_MAX` of them."""
    assert len(positions) <= ENDS_MAX
    request = EndTransactions(group, decision.value, mark)
    answer = await instance.call(broker_name, request, pack_positions(positions), timeout_ms=timeout_ms)
    try:
        ended = [Ended(byte) for byte in bytes(answer.body)]
    except ValueError as wrong:
        raise ProtocolError(f"broker {broker_name} answered END_TRANSACTIONS with {wrong}") from None
    if len(ended) != len(positions):
        raise ProtocolError(f"broker {broker_name} answered {len(ended)} of {len(positions)} ends")
    return ended
