"""The brokers of one name as this one knows them: who is there, and who has the smallest id. Pure state.

The one with the smallest id works for the group: the master (0), or the first slave while there is no master. Until it
is told otherwise, a broker believes that its master is there, as upstream.

Mirrors: BrokerController.updateMinBroker, onMinBrokerChange, BrokerMemberGroup.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cometmq.broker.config import MASTER_ID

log = logging.getLogger("cometmq.broker")


@dataclass(frozen=True, slots=True)
class Change:
    """Another broker of the group has the smallest id now."""

    min_id: int
    min_addr: str | None
    offline_addr: str | None = None
    ha_addr: str | None = None

    @property
    def master_is_back(self) -> bool:
        return self.min_id == MASTER_ID and self.min_addr is not None


@dataclass
class BrokerGroup:
    """`addrs`: the members as a NameServer told last, this broker among them once it is registered."""

    own_id: int
    own_addr: str
    own_ha_addr: str
    may_act: bool = False
    link_is_up: Callable[[], bool] = lambda: True  # whether a slave that may not act hears its master
    min_id: int = MASTER_ID
    min_addr: str | None = None
    addrs: dict[int, str] = field(default_factory=dict)
    on_master: Callable[[str | None, str | None], None] = lambda ha_addr, addr: None  # where it is, if somebody says so
    on_change: list[Callable[[Change], None]] = field(default_factory=list)

    @property
    def master_is_there(self) -> bool:
        return self.min_id == MASTER_ID if self.may_act else self.own_id == MASTER_ID or self.link_is_up()

    @property
    def is_first(self) -> bool:
        return self.own_id == self.min_id

    @property
    def others(self) -> list[str]:
        """Where the other members are."""
        return [addr for broker_id, addr in self.addrs.items() if broker_id != self.own_id]

    @property
    def alive(self) -> int:
        """How many members there are, this broker included."""
        return len(self.addrs) if self.own_id in self.addrs else len(self.addrs) + 1

    def listed(self, addrs: Mapping[int, str]) -> None:
        """A NameServer has listed the members; an empty list is no news."""
        if not addrs:
            return
        self.addrs = dict(addrs)
        first = min(addrs)
        self.told(Change(first, addrs[first], self.min_addr if first > self.min_id else None))

    def told(self, change: Change) -> None:
        """Somebody says who is first; only what differs is news, and only for a slave that may act."""
        if not self.may_act or self.own_id == MASTER_ID:
            return
        if change.min_id == self.min_id:
            self.min_addr = change.min_addr or self.min_addr
            return
        log.warning(
            "the first broker of the group was %d at %s and is now %d at %s",
            self.min_id, self.min_addr, change.min_id, change.min_addr,
        )  # fmt: skip
        self.begin(change)

    def begin(self, change: Change) -> None:
        """Take it as it is, and tell everybody."""
        self.min_id, self.min_addr = change.min_id, change.min_addr
        for tell in self.on_change:
            tell(change)
