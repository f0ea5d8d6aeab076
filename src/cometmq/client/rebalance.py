"""Which member of a group takes which queues: Java's strategies, pure.

Every member is given the same sorted lists and works out its own share, so members of one group must use the same
strategy, whatever language they are written in. The result is Java's, queue for queue.
Invariant: without faults in what a strategy was told, each queue falls to exactly one member.

Mirrors: AllocateMessageQueueAveragely, AllocateMessageQueueAveragelyByCircle, AllocateMessageQueueByConfig,
AllocateMessageQueueByMachineRoom, AllocateMachineRoomNearby, AllocateMessageQueueConsistentHash.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from cometmq.errors import InvalidArgument
from cometmq.model.queue import MessageQueue


class AssignmentStrategy(Protocol):
    """How queues are divided; `name` is what a broker that divides them is told."""

    @property
    def name(self) -> str: ...

    def share(self, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
        """The queues of `client_id`, which is one of `clients`; both lists are sorted and not empty."""


def assign(
    strategy: AssignmentStrategy, client_id: str, queues: Iterable[MessageQueue], clients: Iterable[str]
) -> list[MessageQueue] | None:
    """What one member gets; None if nothing can be said, so that it keeps what it has."""
    all_queues, all_clients = sorted(queues), sorted(set(clients))
    if not all_queues or client_id not in all_clients:
        return None
    return strategy.share(client_id, all_queues, all_clients)


class Averagely:
    """Neighbouring queues; the first members get one more where it does not come out even."""

    name = "AVG"

    def share(self, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
        index = clients.index(client_id)
        size, more = divmod(len(queues), len(clients))
        start = index * size + min(index, more)
        return list(queues[start : start + size + (index < more)])


class ByCircle:
    """Every n-th queue."""

    name = "AVG_BY_CIRCLE"

    def share(self, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
        return list(queues[clients.index(client_id) :: len(clients)])


class ByConfig:
    """Always the same queues, which the program names; who divides them is the operator."""

    name = "CONFIG"

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        self.queues = list(queues)

    def share(self, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
        # Java's takes the list for every topic; a queue of another topic could never be read under this one.
        return [queue for queue in self.queues if queue.topic == queues[0].topic]


class MachineRoom:
    """Queues of brokers named `room@broker` in the given rooms; those of others are nobody's."""

    name = "MACHINE_ROOM"

    def __init__(self, rooms: Iterable[str]) -> None:
        self.rooms = frozenset(rooms)

    def share(self, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
        mine = [queue for queue in queues if self._room(queue.broker_name or "") in self.rooms]
        index = clients.index(client_id)
        size, more = divmod(len(mine), len(clients))
        found = mine[index * size : (index + 1) * size]
        return [*found, mine[size * len(clients) + index]] if index < more else found

    def _room(self, broker_name: str) -> str | None:
        parts = broker_name.rstrip("@").split("@")  # Java's split forgets empty pieces at the end
        return parts[0] if len(parts) == 2 else None


class NearbyRoom:
    """Queues go to members in the room of their broker, divided by `within`; those of rooms without member to all."""

    def __init__(
        self,
        within: AssignmentStrategy,
        room_of_queue: Callable[[MessageQueue], str],
        room_of_client: Callable[[str], str],
    ) -> None:
        self.within = within
        self.room_of_queue = room_of_queue
        self.room_of_client = room_of_client

    @property
    def name(self) -> str:
        return f"MACHINE_ROOM_NEARBY-{self.within.name}"

    def share(self, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
        queues_in: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_in.setdefault(_named(self.room_of_queue(queue), queue), []).append(queue)
        clients_in: dict[str, list[str]] = {}
        for client in clients:
            clients_in.setdefault(_named(self.room_of_client(client), client), []).append(client)
        own = self.room_of_client(client_id)
        found = self.within.share(client_id, queues_in.pop(own), clients_in[own]) if own in queues_in else []
        for room in sorted(queues_in.keys() - clients_in.keys()):
            found += self.within.share(client_id, queues_in[room], clients)
        return found


def _named(room: str, of: object) -> str:
    if not room:
        raise InvalidArgument(f"no machine room is known of {of}; the functions given to NearbyRoom must name one")
    return room


def _md5_start(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


class ConsistentHash:
    """Queues and members stand on a ring, a member at several places; few queues move when a member comes or goes."""

    name = "CONSISTENT_HASH"

    def __init__(self, virtual_nodes: int = 10, hash_function: Callable[[str], int] = _md5_start) -> None:
        if virtual_nodes < 1:
            raise InvalidArgument(f"virtual_nodes is {virtual_nodes}; with none of them nobody would get a queue")
        self.virtual_nodes = virtual_nodes
        self.hash_function = hash_function

    def share(self, client_id: str, queues: Sequence[MessageQueue], clients: Sequence[str]) -> list[MessageQueue]:
        place = self.hash_function
        ring = {place(f"{client}-{number}"): client for client in clients for number in range(self.virtual_nodes)}
        places = sorted(ring)
        return [
            queue
            for queue in queues
            if ring[places[bisect_left(places, place(_java_text(queue))) % len(places)]] == client_id
        ]


def _java_text(queue: MessageQueue) -> str:
    """A queue as Java prints it, which is what is hashed."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


STRATEGIES: Final[dict[str, Callable[[], AssignmentStrategy]]] = {
    "AVG": Averagely,
    "AVG_BY_CIRCLE": ByCircle,
    "CONSISTENT_HASH": ConsistentHash,
}


def strategy_of(given: AssignmentStrategy | str) -> AssignmentStrategy:
    """A strategy, or one by its name where it needs to be told nothing more."""
    if not isinstance(given, str):
        return given
    make = STRATEGIES.get(given)
    if make is None:
        raise InvalidArgument(
            f"the strategy {given!r} is not one of {', '.join(STRATEGIES)}; those that need to be told more are "
            "given as objects: ByConfig(…), MachineRoom(…), NearbyRoom(…)"
        )
    return make()
