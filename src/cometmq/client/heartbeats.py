"""Heartbeats: how brokers know who lives in this client, and that it lives.

A broker that reads version 2 is told the subscriptions once; then a fingerprint of them is enough, until they
change or the broker says that it has others. A broker forgets a client whose connection is lost, so a new
connection begins with a whole heartbeat.

Mirrors: MQClientInstance (sendHeartbeatToAllBroker, sendHeartbeatToBrokerV2), HeartbeatData.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable
from typing import Final

from cometmq.net.channel import Channel
from cometmq.wire.bodies.heartbeat import HeartbeatData
from cometmq.wire.command import Command
from cometmq.wire.requests.members import HeartBeat, HeartBeatReply

_FINGERPRINT_MASK: Final = 0x7FFFFFFF


class Heartbeats:
    """What is to be said to which connection. `describe` tells who lives here."""

    def __init__(self, describe: Callable[[], HeartbeatData], *, version_2: bool) -> None:
        self._describe = describe
        self._version_2 = version_2
        self._known: dict[Channel, int] = {}  # the fingerprint that the broker behind a connection has

    def body_for(self, channel: Channel) -> tuple[bytes, int]:
        """The heartbeat for a connection, and its fingerprint."""
        data = self._describe()
        if not self._version_2:
            return data.encode(), 0
        fingerprint = zlib.crc32(data.encode()) & _FINGERPRINT_MASK or 1
        data.fingerprint = fingerprint
        if self._known.get(channel) == fingerprint:
            data.without_sub = True
            data.consumers = [dataclasses.replace(consumer, subscriptions=[]) for consumer in data.consumers]
        return data.encode(), fingerprint

    async def beat(self, channel: Channel, timeout_ms: int) -> None:
        """Send one and note what the broker knows now; raises `PeerError`."""
        body, fingerprint = self.body_for(channel)
        self.answered(channel, fingerprint, await channel.call(HeartBeat(), body, timeout_ms=timeout_ms))

    def answered(self, channel: Channel, fingerprint: int, answer: Command) -> None:
        # Brokers before 5 answer without these fields: they know version 1 only.
        supports = answer.ext.get("IS_SUPPORT_HEART_BEAT_V2", "").lower() == "true"
        if supports and fingerprint and not HeartBeatReply.read(answer.ext).is_sub_change:
            if channel not in self._known:
                channel.closed.add_done_callback(lambda _: self._known.pop(channel, None))
            self._known[channel] = fingerprint
        else:
            self._known.pop(channel, None)
