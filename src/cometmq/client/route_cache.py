"""Where topics are, as the name servers told last: pure state, asked on every send.

Queues to write are those of brokers that have a master and allow writing; a topic that does not exist yet borrows
the route of TBW102, whose brokers create it when the first message comes. Holds at most `TOPICS_MAX` topics.

Mirrors: MQClientInstance (topicRouteTable, brokerAddrTable, topicRouteData2TopicPublishInfo).
"""

from __future__ import annotations

from typing import Final

from cometmq.model.queue import MessageQueue
from cometmq.model.route import MASTER_ID, TopicRoute
from cometmq.model.sysflag import Perm

TOPICS_MAX: Final = 4096


class RouteCache:
    """Routes by topic, and what follows from them."""

    def __init__(self) -> None:
        self.routes: dict[str, TopicRoute] = {}
        self.borrowed: set[str] = set()  # topics that have another's route, until they exist
        self.writable: dict[str, tuple[MessageQueue, ...]] = {}
        self.readable: dict[str, tuple[MessageQueue, ...]] = {}
        self.brokers: dict[str, dict[int, str]] = {}

    def put(self, topic: str, route: TopicRoute, *, queues_max: int | None = None) -> bool:
        """Take a route; says whether it is news. With `queues_max` it is borrowed for a topic that is to be created."""
        is_borrowed = queues_max is not None
        if self.routes.get(topic) == route and is_borrowed == (topic in self.borrowed):
            return False
        if topic not in self.routes and len(self.routes) >= TOPICS_MAX:
            self.forget(next(iter(self.routes)))
        self.routes[topic] = route
        self.writable[topic] = _writable(topic, route, queues_max)
        if is_borrowed:
            self.borrowed.add(topic)
            self.readable.pop(topic, None)
        else:
            self.borrowed.discard(topic)
            self.readable[topic] = _readable(topic, route)
        self._gather_brokers()
        return True

    def forget(self, topic: str) -> None:
        """The topic is gone, or nobody asks for it any more."""
        for table in (self.routes, self.writable, self.readable):
            table.pop(topic, None)
        self.borrowed.discard(topic)
        self._gather_brokers()

    def _gather_brokers(self) -> None:
        self.brokers = {}
        for route in self.routes.values():
            for broker in route.brokers:
                self.brokers.setdefault(broker.broker_name, {}).update(broker.addrs)

    def address(self, broker_name: str, broker_id: int = MASTER_ID, *, or_any: bool = False) -> str | None:
        """Where a broker is; with `or_any` another of the same name will do."""
        addrs = self.brokers.get(broker_name, {})
        found = addrs.get(broker_id)
        if found is None and or_any and addrs:
            found = addrs[min(addrs)]
        return found

    def name_of(self, address: str) -> str | None:
        """The broker name behind an address."""
        return next((name for name, addrs in self.brokers.items() if address in addrs.values()), None)


def _writable(topic: str, route: TopicRoute, queues_max: int | None) -> tuple[MessageQueue, ...]:
    if route.order_conf and queues_max is None:
        return _ordered(topic, route.order_conf)
    masters = {broker.broker_name for broker in route.brokers if MASTER_ID in broker.addrs}
    found: list[MessageQueue] = []
    for queue in sorted(route.queues, key=lambda queue: queue.broker_name):
        if queue.perm & Perm.WRITE and queue.broker_name in masters:
            count = queue.write_queue_nums if queues_max is None else min(queue.write_queue_nums, queues_max)
            found += [MessageQueue(topic, queue.broker_name, number) for number in range(count)]
    return tuple(found)


def _ordered(topic: str, order_conf: str) -> tuple[MessageQueue, ...]:
    """The queues of `broker:count;broker:count`, which stay the same while brokers come and go."""
    found: list[MessageQueue] = []
    for part in order_conf.split(";"):
        name, _, count = part.partition(":")
        if count.strip().isdecimal():
            found += [MessageQueue(topic, name.strip(), number) for number in range(int(count))]
    return tuple(found)


def _readable(topic: str, route: TopicRoute) -> tuple[MessageQueue, ...]:
    return tuple(
        MessageQueue(topic, queue.broker_name, number)
        for queue in sorted(route.queues, key=lambda queue: queue.broker_name)
        if queue.perm & Perm.READ
        for number in range(queue.read_queue_nums)
    )
