"""Dividing queues among the clients of a group.

Every client is given the same sorted lists, so each queue falls to exactly one of them, except when they share:
a client that pops also gets the queues of the `share` clients behind it, or all queues of a broker at once, which is
written as queue -1.

Mirrors: AllocateMessageQueueAveragely, AllocateMessageQueueAveragelyByCircle, QueryAssignmentProcessor.allocate4Pop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cometmq.model.queue import MessageQueue

ALL_QUEUES: Final = -1

Strategy = Callable[[str, list[MessageQueue], list[str]], list[MessageQueue]]


def averagely(client_id: str, queues: list[MessageQueue], clients: list[str]) -> list[MessageQueue]:
    """Neighbouring queues; the first clients get one more where it does not come out even."""
    index = clients.index(client_id)
    size, more = divmod(len(queues), len(clients))
    start = index * size + min(index, more)
    return queues[start : start + size + (index < more)]


def by_circle(client_id: str, queues: list[MessageQueue], clients: list[str]) -> list[MessageQueue]:
    """Every n-th queue."""
    return queues[clients.index(client_id) :: len(clients)]


STRATEGIES: Final[dict[str, Strategy]] = {"AVG": averagely, "AVG_BY_CIRCLE": by_circle}


def divide(
    strategy: Strategy, client_id: str | None, queues: list[MessageQueue], clients: list[str]
) -> list[MessageQueue] | None:
    """What one client gets; None if there is nothing to divide or nobody to get it, so that it keeps what it has."""
    if not client_id or not queues or not clients:
        return None
    return strategy(client_id, queues, clients) if client_id in clients else []


def divide_for_pop(
    strategy: Strategy, client_id: str | None, queues: list[MessageQueue], clients: list[str], share: int
) -> list[MessageQueue] | None:
    """What one client pops from: everything, unless fewer than all others are to share a queue with it."""
    if share <= 0 or share >= len(clients) - 1:
        return list(dict.fromkeys(queue._replace(queue_id=ALL_QUEUES) for queue in queues))
    if len(clients) > len(queues):  # else some would get nothing
        if not client_id or client_id.isspace() or not queues:
            return None
        return [queues[clients.index(client_id) % len(queues)]] if client_id in clients else []
    found = divide(strategy, client_id, queues, clients)
    if not found or client_id is None:
        return found
    first = clients.index(client_id)
    sharers = [clients[(first + step) % len(clients)] for step in range(1, share + 1)]
    return list(dict.fromkeys(found + [queue for sharer in sharers for queue in strategy(sharer, queues, clients)]))
