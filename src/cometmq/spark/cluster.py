"""What planning and reading ask of a cluster: routes, where queues begin and end, offsets of groups.

One per name servers and process, kept between tasks in the Python worker that Spark uses again (`cluster_of`). After a
fork the child starts with none: the sockets are its parent's.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from cometmq.client.forking import GENERATION
from cometmq.client.options import ClientOptions
from cometmq.errors import BrokerUnreachable, CometError, InvalidArgument, PeerRefused, PeerUnreachable, TopicNotFound
from cometmq.model.names import is_retry_or_dlq, is_system_topic
from cometmq.model.queue import MessageQueue
from cometmq.model.route import MASTER_ID, TopicRoute
from cometmq.model.sysflag import Perm
from cometmq.net.blocking_channel import BlockingChannel
from cometmq.net.name_servers import NameServers
from cometmq.spark.offsets import Offsets
from cometmq.spark.options import Choice
from cometmq.wire import fastjson
from cometmq.wire.bodies.cluster import ClusterInfo, decode_cluster_info
from cometmq.wire.bodies.route import decode_route
from cometmq.wire.bodies.topic_configs import decode_topic_config
from cometmq.wire.bodies.topics import decode_topic_list
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command
from cometmq.wire.requests.admin import GetTopicConfig
from cometmq.wire.requests.consume import (
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    QueryConsumerOffset,
    SearchOffset,
    UpdateConsumerOffset,
)
from cometmq.wire.requests.namesrv import GetAllTopicList, GetClusterInfo, GetRouteInfo
from cometmq.wire.schema import Header

log = logging.getLogger("cometmq.spark")

_T = TypeVar("_T")

CLUSTERS_MAX: Final = 16
BEHIND_MS: Final = 5_000  # how long a queue may end before it did: a replica, or a broker that just started
PAUSE_S: Final = 0.2
PAUSE_MAX_S: Final = 2.0
_IN_TIME: Final = (
    ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY,
)  # fmt: skip


class Span(NamedTuple):
    """What a queue holds: offsets in [low, high)."""

    low: int
    high: int


class Cluster:
    """Connections and routes; see the module."""

    def __init__(self, options: ClientOptions) -> None:
        is_url = options.namesrv.startswith(("http://", "https://"))
        self.options = options
        self._servers = NameServers(
            "" if is_url else options.namesrv, address_server=options.namesrv if is_url else None
        )
        self._first: str | None = None
        self._channels: dict[str, BlockingChannel] = {}
        self._addresses: dict[str, dict[int, str]] = {}

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    # --- connections

    def _channel(self, address: str) -> BlockingChannel:
        found = self._channels.get(address)
        if found is None or not found.is_open:
            found = self._channels[address] = BlockingChannel(
                address,
                timeout_ms=self.options.connect_timeout_ms,
                credentials=self.options.credentials,
                tls=self.options.tls,
            )
        return found

    def channel(self, broker: str) -> BlockingChannel:
        """The connection to a broker: its master, or another of the name where there is none."""
        addresses = self._addresses.get(broker)
        if not addresses:
            raise PeerUnreachable(f"the broker {broker} is in no route now; is it running?")
        address = addresses.get(MASTER_ID) or addresses[min(addresses)]
        try:
            return self._channel(address)
        except PeerUnreachable as fault:
            raise BrokerUnreachable(broker, address, ";".join(self._servers.addresses), str(fault)) from None

    def call_all(self, broker: str, requests: Sequence[Header]) -> list[Command]:
        return self.channel(broker).call_all(requests, timeout_ms=self.options.request_timeout_ms)

    def _ask_all(self, broker: str, requests: Sequence[Header]) -> list[Command]:
        """The same, whatever the answers are."""
        return self.channel(broker).ask_all(requests, timeout_ms=self.options.request_timeout_ms)

    def call_name_server(self, request: Header) -> Command:
        """What one of the name servers answers; the one that did is asked first next time."""
        if not self._servers.addresses:
            asyncio.run(self._servers.refresh())
        addresses = list(self._servers.addresses)
        random.shuffle(addresses)
        addresses.sort(key=lambda address: address != self._first)
        faults: list[str] = []
        for address in addresses:
            for is_second in (False, True):  # a connection that was kept may have died since
                try:
                    answer = self._channel(address).call(request, timeout_ms=self.options.request_timeout_ms)
                except PeerRefused:
                    raise
                except CometError as fault:
                    if is_second or (isinstance(fault, PeerUnreachable) and "cannot connect" in str(fault)):
                        faults.append(str(fault))
                        break
                else:
                    self._first = address
                    return answer
        told = "; ".join(faults) or "no address is known"
        raise PeerUnreachable(f"no name server answers: {told}. Is namesrvAddr right, and does one run there?")

    # --- topics

    def route(self, topic: str) -> TopicRoute | None:
        """Where a topic is; None if it is nowhere. From now on its brokers are known."""
        try:
            answer = self.call_name_server(GetRouteInfo(topic, accept_standard_json_only=True))
        except PeerRefused as refused:
            if refused.code == ResponseCode.TOPIC_NOT_EXIST:
                return None
            raise
        found = decode_route(answer.body)
        for broker in found.brokers:
            self._addresses[broker.broker_name] = dict(broker.addrs)
        return found

    def info(self) -> ClusterInfo:
        """All brokers; they are known from now on."""
        found = decode_cluster_info(self.call_name_server(GetClusterInfo()).body)
        for name, broker in found.brokers.items():
            self._addresses[name] = dict(broker.addrs)
        return found

    def topics(self) -> list[str]:
        return decode_topic_list(self.call_name_server(GetAllTopicList()).body)

    def queues(self, choice: Choice, *, known: Iterable[MessageQueue] = ()) -> list[MessageQueue]:
        """The queues that are meant, as they are now; `TopicNotFound` of one that is named, absent and not `known`."""
        topics = set(choice.topics) | {str(queue.topic) for queue in choice.queues}
        if choice.is_open:
            there = set(self.topics())
            for topic in there:
                is_own = choice.may_be_absent or not (is_system_topic(topic) or is_retry_or_dlq(topic))
                if is_own and choice.matches(topic, there):
                    topics.add(topic)
        known_topics = {queue.topic for queue in known}
        found: list[MessageQueue] = []
        for topic in sorted(topics):
            route = self.route(topic)
            if route is not None:
                own = _readable(topic, route)
                if not own and topic not in known_topics:
                    _tell_unreadable(topic, route, is_named=not choice.matches(topic))
                found += own
            elif not choice.may_be_absent and topic not in known_topics and not choice.matches(topic):
                raise self._absent(topic)
        if choice.queues:
            for queue in set(choice.queues) - set(found) - set(known):
                raise InvalidArgument(
                    f"assign names queue {queue.queue_id} of {queue.topic} on {queue.broker_name}, which is no queue "
                    f"that can be read; there are {_text(one for one in found if one.topic == queue.topic)}"
                )
            found = [queue for queue in found if queue in choice.queues]
        return sorted(found)

    def readable(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that may be read; none of one that is not there."""
        route = self.route(topic)
        return [] if route is None else _readable(topic, route)

    def _absent(self, topic: str) -> CometError:
        """Why a topic has no route: while no broker is registered nobody can say that it does not exist."""
        servers = ";".join(self._servers.addresses)
        if not self.info().brokers:
            return PeerUnreachable(f"no broker is registered with the name servers ({servers}) now")
        return TopicNotFound(topic, servers, "create it, or mend the option")

    # --- offsets

    def spans(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Span]:
        """Where queues begin and end now."""
        low = self._offsets(queues, lambda queue: GetMinOffset(str(queue.topic), queue.queue_id))
        high = self._offsets(queues, lambda queue: GetMaxOffset(str(queue.topic), queue.queue_id))
        # A queue that nothing was ever written to has, with some brokers, no beginning.
        return {queue: Span(min(max(low[queue], 0), high[queue]), high[queue]) for queue in low}

    def caught_up(self, spans: dict[MessageQueue, Span], known: Mapping[MessageQueue, int]) -> dict[MessageQueue, Span]:
        """These spans, or later ones: a queue that ends before a known offset may be a replica a moment behind."""
        until_s = time.monotonic() + BEHIND_MS / 1000
        while behind := [queue for queue, span in spans.items() if span.high < known.get(queue, 0)]:
            if time.monotonic() >= until_s:
                break
            time.sleep(PAUSE_S)
            spans = {**spans, **self.spans(behind)}
        return spans

    def in_batches(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, bool | None]:
        """Whether the messages of a queue lie in batches (queue.type=BatchCQ); None where the broker does not tell."""
        found: dict[MessageQueue, bool | None] = {}
        of_brokers = by_broker(queues)
        for topic in {str(queue.topic) for own in of_brokers.values() for queue in own}:
            self.route(topic)  # a stream that goes on plans its last batch again before it has asked anything
        for broker, own in of_brokers.items():
            topics = sorted({str(queue.topic) for queue in own})
            answers = self._ask_all(broker, [GetTopicConfig(topic) for topic in topics])
            told = dict(zip(topics, map(_is_of_batches, answers), strict=True))
            found |= {queue: told[str(queue.topic)] for queue in own}
        return found

    def search(self, times_ms: Mapping[MessageQueue, int]) -> Offsets:
        """The offset of the first message of each queue that was stored at that time or later."""
        return self._offsets(
            times_ms, lambda queue: SearchOffset(str(queue.topic), queue.queue_id, times_ms[queue], "LOWER")
        )

    def _offsets(self, queues: Iterable[MessageQueue], ask: Callable[[MessageQueue], Header]) -> Offsets:
        found: Offsets = {}
        for broker, own in by_broker(queues).items():
            answers = self.call_all(broker, [ask(queue) for queue in own])
            for queue, answer in zip(own, answers, strict=True):
                found[queue] = OffsetReply.read(answer.ext).offset
        return found

    def committed(self, group: str, queues: Iterable[MessageQueue]) -> Offsets:
        """How far a group is; queues where it never was are left out."""
        found: Offsets = {}
        for broker, own in by_broker(queues).items():
            answers = self._ask_all(
                broker,
                [
                    QueryConsumerOffset(str(queue.topic), queue.queue_id, group, set_zero_if_not_found=False)
                    for queue in own
                ],
            )
            for queue, answer in zip(own, answers, strict=True):  # "not found" is an answer here
                if answer.code == ResponseCode.SUCCESS:
                    found[queue] = OffsetReply.read(answer.ext).offset
                elif answer.code != ResponseCode.QUERY_NOT_FOUND:
                    raise PeerRefused(answer.code, answer.remark or "", f"broker {broker}")
        return {queue: offset for queue, offset in found.items() if offset >= 0}

    def commit(self, group: str, offsets: Offsets) -> None:
        """Tell the brokers how far a group is."""
        for broker, own in by_broker(offsets).items():
            self.call_all(
                broker,
                [UpdateConsumerOffset(str(queue.topic), group, queue.queue_id, offsets[queue]) for queue in own],
            )


def by_broker(queues: Iterable[MessageQueue]) -> dict[str, list[MessageQueue]]:
    found: dict[str, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        found[str(queue.broker_name)].append(queue)
    return found


def _readable(topic: str, route: TopicRoute) -> list[MessageQueue]:
    present = {broker.broker_name for broker in route.brokers if broker.addrs}
    return [
        MessageQueue(topic, data.broker_name, number)
        for data in route.queues
        if data.perm & Perm.READ and data.broker_name in present
        for number in range(data.read_queue_nums)
    ]


def perm_text(perm: int) -> str:
    return ("R" if perm & Perm.READ else "-") + ("W" if perm & Perm.WRITE else "-")


def _tell_unreadable(topic: str, route: TopicRoute, *, is_named: bool) -> None:
    """An empty topic and one that may not be read are different things."""
    perms = ", ".join(f"{perm_text(data.perm)} on {data.broker_name}" for data in route.queues)
    told = f"no queue of the topic {topic} may be read: its permission is {perms or 'none'}"
    if is_named:
        raise InvalidArgument(f"{told}. Let it be read, as with mqadmin updateTopicPerm -p 6")
    log.warning("%s; it is left out", told)


def _is_of_batches(answer: Command) -> bool | None:
    if answer.code == ResponseCode.SUCCESS:
        return decode_topic_config(fastjson.loads(answer.body)).attributes.get("queue.type") == "BatchCQ"
    if answer.code in (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.REQUEST_CODE_NOT_SUPPORTED):
        return False  # brokers that do not know the question know no batches
    return None


def _text(queues: Iterable[MessageQueue]) -> str:
    return ", ".join(f"{queue.broker_name}:{queue.queue_id}" for queue in queues) or "none"


class _Kept:
    """The clusters of this process."""

    def __init__(self) -> None:
        self.generation = GENERATION.number
        self.clusters: dict[ClientOptions, Cluster] = {}


_kept = _Kept()


def cluster_of(options: ClientOptions) -> Cluster:
    """The one of this process; its connections are used again."""
    if _kept.generation != GENERATION.number:
        _kept.clusters = {}
        _kept.generation = GENERATION.number
    found = _kept.clusters.get(options)
    if found is None:
        if len(_kept.clusters) >= CLUSTERS_MAX:
            _kept.clusters.pop(next(iter(_kept.clusters))).close()
        found = _kept.clusters[options] = Cluster(options)
    return found


def patiently(attempt: Callable[[], _T], retry_ms: int, what: str) -> _T:
    """Try until it works: brokers restart, connections that were kept have died. At last the fault is raised."""
    until_s = time.monotonic() + retry_ms / 1000
    pause_s = 0.0
    while True:
        try:
            return attempt()
        except CometError as fault:
            # The second attempt is always made: a connection that was kept may have died since.
            if not worth_another(fault) or (pause_s and time.monotonic() + pause_s > until_s):
                raise
            if pause_s:
                log.warning("%s: %s; trying again", what, fault)
        time.sleep(pause_s)
        pause_s = min(PAUSE_MAX_S, pause_s * 2 or PAUSE_S)


def worth_another(fault: CometError) -> bool:
    """Whether the same may work in a moment."""
    if isinstance(fault, PeerRefused):
        return fault.code in _IN_TIME
    return fault.retriable and not isinstance(fault, TopicNotFound)
