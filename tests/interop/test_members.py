"""Consumers that start, stop, are killed and join in the middle: nothing is lost, and promised order is kept.

Each member is a process. A sender in this process keeps sending to every queue while they come and go.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple, Self

import pytest
from tests.interop.clients import GO_CLIENT, Client, Outcome, Program, java_client
from tests.interop.test_clients import every_java_client, numbered
from tests.original import Cluster
from tests.original.cluster import Kind
from tests.original.java import JavaBroker, compact_jvm

from cometmq.errors import PeerRefused
from cometmq.net.channel import Channel
from cometmq.net.pool import connect
from cometmq.wire import fastjson
from cometmq.wire.bodies.assignment import POP, RequestMode
from cometmq.wire.requests.admin import CreateTopic, DeleteExpiredCommitLog
from cometmq.wire.requests.consume import GetMinOffset, OffsetReply
from cometmq.wire.requests.members import SetMessageRequestMode
from cometmq.wire.requests.send import SendMessageV2

pytestmark = pytest.mark.timeout(900)

QUEUES = 4
WAYS = ("orderly", "concurrent", "broadcast")
WAIT_S = 90
MOVED_WITHIN_S = 10
LOCK_MS = 4_000  # 60 s by default; the clients below lock as much more often than theirs
LOCK_KEY = "rocketmq.broker.rebalance.lockMaxLiveTime"
ORDERLY_FLAGS = (
    "-Drocketmq.client.rebalance.lockInterval=500",
    "-Drocketmq.client.rebalance.lockMaxLiveTime=2000",
    "-Drocketmq.client.rebalance.waitInterval=1000",
)
JAVA_MEMBERS = tuple(
    Client(f"java-{version}-member", java_client(version, *ORDERLY_FLAGS)) for version in ("5.5.0", "4.9.8")
)


class Got(NamedTuple):
    """One delivery."""

    at: int
    queue: int
    offset: int
    body: str
    member: str


class Member(Program):
    """A consumer in a process of its own."""

    def __init__(self, name: str, client: Client, cluster: Cluster, scenario: str, folder: Path) -> None:
        super().__init__(client, cluster, [scenario], folder / name)
        self.name = name

    def got(self, way: str) -> list[Got]:
        found = [line for line in self.lines() if line.get("got") == way]
        return [Got(line["at"], line["queue"], line["offset"], line["body"], self.name) for line in found]

    def took(self, way: str) -> set[str]:
        return {line["body"] for line in self.lines() if line.get("took") == way}

    def holds(self, way: str) -> list[int]:
        held = [line["holds"][way] for line in self.lines() if "holds" in line]
        return list(held[-1]) if held else []

    def leave(self, scenario: str = "member") -> None:
        self.go_on()
        assert self.finish()[scenario] == {"left": True}


class Sender:
    """Sends to every queue of some topics, one message after the other, until it is left."""

    def __init__(self, cluster: Cluster, topics: Sequence[str]) -> None:
        self.sent: dict[str, list[str]] = {topic: [] for topic in topics}
        self._address = cluster.broker.addr
        self._enough = Event()
        self._thread = Thread(target=lambda: asyncio.run(self._send()))

    async def _send(self) -> None:
        channel = await connect(self._address)
        try:
            for number in itertools.count():
                for topic, sent in self.sent.items():
                    await self._insist(channel, topic, number)
                    sent.append(str(number))
                await asyncio.sleep(0.01)
                if self._enough.is_set():
                    return
        finally:
            channel.close()

    async def _insist(self, channel: Channel, topic: str, number: int) -> None:
        """The original refuses what waits too long on a busy machine."""
        request = SendMessageV2("sender", topic, "TBW102", 4, number % QUEUES, 0, 1, 0, "")
        while True:
            try:
                await channel.call(request, str(number).encode(), timeout_ms=10_000)
                return
            except PeerRefused:
                await asyncio.sleep(0.1)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()


def await_that(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline, f"waited {WAIT_S} s in vain: {what}"
        time.sleep(0.1)


def make_topics(cluster: Cluster, topics: Sequence[str], queues: int = QUEUES, attributes: str | None = None) -> None:
    async def make() -> None:
        channel = await connect(cluster.broker.addr)
        for topic in topics:
            create = CreateTopic(topic, queues, queues, 6, "SINGLE_TAG", "TBW102", 0, attributes=attributes)
            await channel.call(create, timeout_ms=10_000)
        channel.close()

    asyncio.run(make())


def let_pop(cluster: Cluster, topic: str) -> None:
    """The group that is named as the topic pops, and each member all queues."""

    async def ask() -> None:
        channel = await connect(cluster.broker.addr)
        mode = RequestMode(topic, topic, POP)
        await channel.call(SetMessageRequestMode(), fastjson.dumps(mode.to_json()), timeout_ms=10_000)
        channel.close()

    asyncio.run(ask())


def bodies(deliveries: Sequence[Got]) -> set[str]:
    return {one.body for one in deliveries}


def check_order(deliveries: Sequence[Got], count: int) -> None:
    """Of each queue: one member at a time, each without a gap, and none begins behind what was delivered before."""
    queues: dict[int, list[Got]] = defaultdict(list)
    for one in sorted(deliveries):
        queues[one.queue].append(one)
    assert set(queues) == set(range(QUEUES))
    for of in queues.values():
        reached = 0
        seen: list[str] = []
        for before, one in zip([None, *of], of, strict=False):
            if before is not None and before.member == one.member:
                assert one.offset == before.offset + 1, f"{before} was followed by {one}"
            else:
                assert one.member not in seen, f"{one} came although others had the queue since {seen}"
                assert one.offset <= reached, f"{one} came before offset {reached}"
                seen.append(one.member)
            reached = max(reached, one.offset + 1)
    assert len(bodies(deliveries)) == count


def hold(way: str, *members: Member) -> bool:
    """Whether they have all queues, in fair shares."""
    held = [member.holds(way) for member in members]
    sizes = {len(queues) for queues in held}
    return (
        sorted(number for queues in held for number in queues) == list(range(QUEUES)) and max(sizes) - min(sizes) <= 1
    )


def share(*members: Member) -> None:
    for way in ("orderly", "concurrent"):
        await_that(f"{[member.name for member in members]} share the queues, {way}", lambda w=way: hold(w, *members))


def consume(count: int, *members: Member) -> None:
    for way in WAYS:
        goals = [(member, len(member.got(way)) + count) for member in members]
        await_that(f"everyone gets messages, {way}", lambda w=way, g=goals: all(len(m.got(w)) >= n for m, n in g))


@pytest.fixture(scope="module")
def members_cluster(server_kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(server_kind, tmp_path_factory.mktemp("members"), conf={LOCK_KEY: LOCK_MS})
    if isinstance(cluster.broker, JavaBroker):
        cluster.broker.jvm = (*compact_jvm(), f"-D{LOCK_KEY}={LOCK_MS}")
    with cluster:
        yield cluster


@pytest.mark.parametrize("client", JAVA_MEMBERS, ids=lambda client: client.name)
def test_members_come_and_go(members_cluster: Cluster, client: Client, tmp_path: Path) -> None:
    cluster, running = members_cluster, []
    topics = {way: f"{client.prefix}_members_{way}" for way in WAYS}
    make_topics(cluster, list(topics.values()))

    def join(name: str) -> Member:
        member = Member(name, client, cluster, "member", tmp_path)
        running.append(member)
        return member

    try:
        first, second = join("first"), join("second")
        share(first, second)
        with Sender(cluster, list(topics.values())) as sender:
            consume(20, first, second)
            third = join("third")
            share(first, second, third)
            consume(20, first, second, third)
            lost = first.holds("concurrent")
            killed_at = time.monotonic()
            first.end()
            await_that("the queues of the killed one move", lambda: hold("concurrent", second, third))
            assert time.monotonic() - killed_at < MOVED_WITHIN_S
            assert lost
            share(second, third)
            consume(20, second, third)
            second.leave()
            share(third)
            consume(20, third)
        for way, topic in topics.items():
            sent = set(sender.sent[topic])
            if way == "broadcast":
                await_that(
                    "the last one sees everything that was broadcast",
                    lambda s=sent: bodies(third.got("broadcast")) == s,
                )
            else:
                await_that(
                    f"nothing is lost, {way}",
                    lambda w=way, s=sent: bodies([one for m in running for one in m.got(w)]) == s,
                )
        third.leave()
        check_order([one for member in running for one in member.got("orderly")], len(sender.sent[topics["orderly"]]))
        for member in running[:2]:  # what a member saw before it went has no gap
            seen = {int(body) for body in bodies(member.got("broadcast"))}
            of_queue = [[n for n in sorted(seen) if n % QUEUES == queue] for queue in range(QUEUES)]
            assert all(of == list(range(queue, queue + QUEUES * len(of), QUEUES)) for queue, of in enumerate(of_queue))
    finally:
        for member in running:
            member.end()


def test_go_members_come_and_go(members_cluster: Cluster, tmp_path: Path) -> None:
    client, cluster, running = GO_CLIENT, members_cluster, []
    topics = {way: f"{client.prefix}_members_{way}" for way in ("concurrent", "broadcast")}
    make_topics(cluster, list(topics.values()))

    def join(name: str) -> Member:
        member = Member(name, client, cluster, "member", tmp_path)
        running.append(member)
        return member

    def consume(*members: Member) -> None:
        """Until each member gets messages of its share of the queues."""
        before = {member: len(member.got("concurrent")) for member in members}

        def shared() -> bool:
            recent = [{one.queue for one in member.got("concurrent")[before[member] :]} for member in members]
            return all(recent) and set().union(*recent) == set(range(QUEUES))

        await_that("everyone gets messages, and every queue is somebody's", shared)

    try:
        first, second = join("first"), join("second")
        with Sender(cluster, list(topics.values())) as sender:
            consume(first, second)
            third = join("third")
            consume(first, second, third)
            first.end()
            consume(second, third)
            second.leave()
            consume(third)
        everything = set(sender.sent[topics["concurrent"]])
        await_that("nothing is lost", lambda: bodies([g for m in running for g in m.got("concurrent")]) == everything)
        everything_said = set(sender.sent[topics["broadcast"]])
        await_that(
            "the last one sees all that was broadcast", lambda: bodies(third.got("broadcast")) == everything_said
        )
        third.leave()
    finally:
        for member in running:
            member.end()


def test_a_go_member_takes_over_in_order(members_cluster: Cluster, tmp_path: Path) -> None:
    """This client unlocks nothing when queues move and tries again every 20 s, so one follows the other here."""
    client, cluster, running = GO_CLIENT, members_cluster, []
    topic = f"{client.prefix}_members_orderly"
    make_topics(cluster, [topic])

    def join(name: str) -> Member:
        member = Member(name, client, cluster, "orderly_member", tmp_path)
        running.append(member)
        await_that("it gets messages", lambda: len(member.got("orderly")) >= 100)
        return member

    try:
        with Sender(cluster, [topic]) as sender:
            join("first").end()
            time.sleep(LOCK_MS / 1000 + 0.5)  # until the locks of the dead expire
            second = join("second")
        sent = set(sender.sent[topic])
        await_that("nothing is lost", lambda: bodies([g for m in running for g in m.got("orderly")]) == sent)
        second.leave("orderly_member")
        check_order([one for member in running for one in member.got("orderly")], len(sent))
    finally:
        for member in running:
            member.end()


@every_java_client
def test_everybody_begins_with_the_first_message_of_a_young_queue(outcome: Outcome) -> None:
    everything = sorted(numbered("old", 10) + numbered("new", 10))
    assert {where: sorted(got) for where, got in outcome["beginnings"].items()} == {
        "FIRST_OFFSET": everything,
        "LAST_OFFSET": everything,
        "TIMESTAMP": everything,
    }


def fill_and_delete(cluster: Cluster, topics: Sequence[str]) -> dict[str, list[str]]:
    """Queues whose first messages are gone with the first file of the log; returns the tags of those left."""

    async def do() -> dict[str, list[str]]:
        channel = await connect(cluster.broker.addr)
        for number in range(300):
            for topic in topics:
                properties = f"TAGS\x01old{number}\x02"
                request = SendMessageV2("sender", topic, "TBW102", 1, 0, 0, 1, 0, properties)
                await channel.call(request, bytes(8_000), timeout_ms=10_000)
        left: dict[str, list[str]] = {}
        while len(left) < len(topics):
            await channel.call(DeleteExpiredCommitLog(), timeout_ms=10_000)
            await asyncio.sleep(0.2)
            for topic in topics:
                first = OffsetReply.read((await channel.call(GetMinOffset(topic, 0))).ext).offset
                if first:
                    left[topic] = numbered("old", 300)[first:]
        channel.close()
        return left

    return asyncio.run(do())


def test_consumers_begin_where_they_are_told(server_kind: Kind, tmp_path: Path) -> None:
    """And one that begins before the first message that is left is put right."""
    conf = {"mappedFileSizeCommitLog": 1 << 20, "fileReservedTime": 0}
    with Cluster(server_kind, tmp_path / "cluster", conf=conf) as cluster:
        topics = {client: f"{client.prefix}_old_beginnings" for client in JAVA_MEMBERS}
        make_topics(cluster, list(topics.values()), queues=1)
        left = fill_and_delete(cluster, list(topics.values()))
        programs = [Program(client, cluster, ["old_beginnings"], tmp_path / client.name) for client in topics]
        for program in programs:
            facts = {where: set(got) for where, got in program.finish()["old_beginnings"].items()}
            new = set(numbered("new", 10))
            assert facts["FIRST_OFFSET"] == {*left[topics[program.client]], *new}
            assert facts["LAST_OFFSET"] == new
            assert new <= facts["TIMESTAMP"] < facts["FIRST_OFFSET"]


def test_the_broker_assigns_queues(members_cluster: Cluster, tmp_path: Path) -> None:
    client, cluster = JAVA_MEMBERS[0], members_cluster
    topics = {way: f"{client.prefix}_{way}" for way in ("assigned", "popped")}
    make_topics(cluster, list(topics.values()))
    let_pop(cluster, topics["popped"])
    outcome = Program(client, cluster, list(topics), tmp_path / "client").finish()
    for way in topics:
        facts = outcome[way]
        got = facts["got"]["first"] + facts["got"]["second"]
        assert sorted(got) == sorted(numbered("m", facts["sent"]))
        assert all(facts["got"].values())
        assert set(facts["by_pop"]) == {way == "popped"}


def test_the_others_get_what_a_killed_one_had_popped(members_cluster: Cluster, tmp_path: Path) -> None:
    client, cluster = JAVA_MEMBERS[0], members_cluster
    topic = f"{client.prefix}_members_pop"
    make_topics(cluster, [topic])
    let_pop(cluster, topic)
    killed = Member("killed", client, cluster, "popping_holder", tmp_path)
    others = [Member(name, client, cluster, "popping_member", tmp_path) for name in ("second", "third")]

    def open_messages() -> set[str]:
        return killed.took("pop") - bodies(killed.got("pop"))

    def finished() -> set[str]:
        return bodies([one for member in others for one in member.got("pop")])

    try:
        with Sender(cluster, [topic]) as sender:
            await_that(
                "all three pop, and one finishes not all of it",
                lambda: bool(open_messages() and killed.got("pop")) and all(len(m.got("pop")) >= 20 for m in others),
            )
            killed.end()
            held = open_messages()
            await_that("the others go on, and get what it held", lambda: held <= finished())
        sent = set(sender.sent[topic])
        await_that("nothing is lost", lambda: finished() | bodies(killed.got("pop")) == sent)
        again = {line["body"] for member in others for line in member.lines() if line.get("again", 0) > 0}
        assert held <= again, "they count as delivered before"
        for member in others:
            member.leave("popping_member")
    finally:
        for member in (killed, *others):
            member.end()
