"""Which slaves have how much, and what that means for those who wait.

    replicated     everything before it is on as many slaves as an acknowledgement needs
    in_sync        brokers, this one counted, that are at most `haMaxGapNotInSync` behind
    needed         inSyncReplicas; with enableAutoInSyncReplicas as many of them as are in sync, but never fewer than
                   minInSyncReplicas
    floor          fewer than so many brokers, and nothing is acknowledged that waits: inSyncReplicas; with
                   enableAutoInSyncReplicas minInSyncReplicas
    least          brokers that must be in sync, or messages are refused before they are stored: minInSyncReplicas. With
                   enableSlaveActingMaster as many as are needed, as in the original

A slave counts once, however many connections it has. When another connection comes that may be of the same slave (of
its brokerId; from its address, where it does not say who it is, as Java's), the older one counts again only when it
acknowledges something that was sent to it after that. What a connection that is dead without our knowing has said
before is then worth nothing, and two slaves are two, on one machine or by mistake with one brokerId.

Mirrors: GroupTransferService, DefaultHAService.inSyncReplicasNums, CommitLog.calcNeedAckNums.
"""

from __future__ import annotations

from typing import Final

from cometmq.broker.ha.config import HaConfig

NOTHING: Final = -1


class Replica:
    """One connected slave. `acknowledged` counts only beyond `doubted`."""

    __slots__ = ("acknowledged", "broker_id", "doubted", "host", "sent")

    def __init__(self, host: str) -> None:
        self.host = host
        self.broker_id: int | None = None
        self.sent = 0
        self.acknowledged = NOTHING
        self.doubted = NOTHING

    def doubt(self) -> None:
        """Count nothing of what it has said so far."""
        self.doubted = max(self.sent, self.acknowledged)

    @property
    def counted(self) -> int:
        """How far this slave surely is."""
        return self.acknowledged if self.acknowledged > self.doubted else NOTHING


class Replicas:
    """The slaves of this master."""

    def __init__(self, config: HaConfig, *, acting: bool = False) -> None:
        self._config = config
        strict = acting and not config.enable_auto_in_sync_replicas
        self.least = config.in_sync_replicas if strict else config.min_in_sync_replicas
        self.floor = config.min_in_sync_replicas if config.enable_auto_in_sync_replicas else config.in_sync_replicas
        self._replicas: list[Replica] = []

    def __len__(self) -> int:
        return len(self._replicas)

    @property
    def following(self) -> int:
        """How many connections have said where they are."""
        return sum(one.acknowledged != NOTHING for one in self._replicas)

    def join(self, host: str) -> Replica:
        """A connection from `host`."""
        replica = Replica(host)
        for other in self._replicas:
            if other.host == host and other.broker_id is None:
                other.doubt()
        self._replicas.append(replica)
        return replica

    def name(self, replica: Replica, broker_id: int) -> list[Replica]:
        """It says who it is; returns the older connections that said the same."""
        older = [one for one in self._replicas if one.broker_id == broker_id and one is not replica]
        replica.broker_id = broker_id
        for one in older:
            one.doubt()
        return older

    def leave(self, replica: Replica) -> None:
        """Its connection is gone."""
        if replica in self._replicas:
            self._replicas.remove(replica)

    def in_sync(self, end: int) -> int:
        """How many brokers, this one counted, are near to the log's end."""
        gap = self._config.ha_max_gap_not_in_sync
        near = [one for one in self._replicas if one.counted != NOTHING and end - one.counted < gap]
        return 1 + len(near)

    def too_few(self, end: int) -> bool:
        return self.in_sync(end) < self.least

    def needed(self, end: int) -> int:
        """How many brokers must have a message before it is acknowledged."""
        config = self._config
        if not config.enable_auto_in_sync_replicas:
            return config.in_sync_replicas
        return max(min(config.in_sync_replicas, self.in_sync(end)), config.min_in_sync_replicas)

    def replicated(self, end: int) -> int:
        """Everything before it is on enough brokers."""
        slaves = self.needed(end) - 1
        if slaves <= 0:
            return end
        counted = sorted((one.counted for one in self._replicas), reverse=True)
        return max(counted[slaves - 1], 0) if len(counted) >= slaves else 0
