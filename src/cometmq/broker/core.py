"""What a capability of the broker stands on, and where it hooks in.

A capability (delay, transactions, pop, …) is a package or module with one function

    def install(core: Core) -> None

which makes its services from what they need of the core and hooks them in: handlers into `routes`, stages into
`messages`, work on the side into `jobs`, listeners into `arrivals`, and what must end cleanly into `closing`, whose
last entry is closed first: at that time no more requests are taken, and the store still takes writes.
Services themselves are given what they use, never the core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from cometmq.broker.acting.bridge import EscapeBridge
from cometmq.broker.acting.duties import Duties
from cometmq.broker.acting.group import BrokerGroup
from cometmq.broker.acting.watch import Watch
from cometmq.broker.config import BrokerConfig
from cometmq.broker.durability import Durability
from cometmq.broker.groups import Groups
from cometmq.broker.housekeeping import Job
from cometmq.broker.inner_messages import InnerMessages
from cometmq.broker.inner_reader import InnerReader
from cometmq.broker.locks.table import QueueLocks
from cometmq.broker.members import Members
from cometmq.broker.offsets import Offsets
from cometmq.broker.replicated import Replicated
from cometmq.broker.role import Role
from cometmq.broker.saved import Saved
from cometmq.broker.statistics import Reads
from cometmq.broker.topics import Topics
from cometmq.clock import Clock
from cometmq.net.name_servers import NameServers
from cometmq.net.routes import Routes
from cometmq.store.dispatch import Arrival
from cometmq.store.engine import Store
from cometmq.store.tables import TableFile
from cometmq.wire.message_id import UniqueIds

OnArrivals = Callable[[Iterable[Arrival]], None]


class Arrivals:
    """Tells who listens which queues have grown, once for each turn of the loop."""

    def __init__(self) -> None:
        self.listeners: list[OnArrivals] = []

    def __call__(self, arrivals: Iterable[Arrival]) -> None:
        for listener in self.listeners:
            listener(arrivals)


@dataclass(frozen=True)
class Core:
    """The services that every broker has."""

    config: BrokerConfig
    clock: Clock
    store: Store
    table: Callable[[str], TableFile]  # a JSON table of the store's config folder, by file name
    topics: Topics
    groups: Groups
    offsets: Offsets
    members: Members
    locks: QueueLocks
    name_servers: NameServers
    durability: Durability
    messages: InnerMessages
    reader: InnerReader
    unique_ids: UniqueIds
    routes: Routes
    arrivals: Arrivals
    closing: AsyncExitStack
    group: BrokerGroup
    watch: Watch
    bridge: EscapeBridge
    taken_back: list[Replicated] = field(default_factory=list)  # what a master asks its slaves when it comes back
    duties: Duties = field(default_factory=Duties)  # what this broker does in its master's stead, if it is a slave
    jobs: list[Job] = field(default_factory=list)
    role: Role = field(default_factory=Role)
    replicated: list[Replicated] = field(default_factory=list)  # what a slave copies from its master
    saved: list[Saved] = field(default_factory=list)  # written every flushConsumerOffsetInterval, and at the end
    reads: Reads = field(default_factory=Reads)
    told: list[Callable[[], Mapping[str, str]]] = field(default_factory=list)  # what operators hear of how it fares
    late: list[Callable[[], bool]] = field(default_factory=list)  # whether a service has not done yet what is due
