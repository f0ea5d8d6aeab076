"""A consumer that falls silent without leaving: stopped where it is, its connections open, and nothing heard of it.

The broker gives up on it when its heartbeat is `channelExpiredTimeout` late (120 s by default), which it looks at every
10 s as the original does. A broker of its own: whoever heartbeats as seldom as clients usually do would be lost here.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.interop.clients import Client, java_client
from tests.interop.test_members import (
    LOCK_KEY,
    LOCK_MS,
    ORDERLY_FLAGS,
    WAYS,
    Member,
    Sender,
    await_that,
    bodies,
    consume,
    hold,
    make_topics,
    share,
)
from tests.original import Cluster
from tests.original.cluster import Kind
from tests.original.java import JavaBroker, compact_jvm

pytestmark = pytest.mark.timeout(300)

EXPIRED_MS = 4_000
LOOKED_AT_EVERY_S = 10
HEARTBEAT = "-Dinterop.heartbeatMs=500"
SILENT = tuple(
    Client(f"java-{version}-silent", java_client(version, *ORDERLY_FLAGS, HEARTBEAT)) for version in ("5.5.0", "4.9.8")
)


def test_a_silent_member_loses_its_queues_and_joins_again(server_kind: Kind, tmp_path: Path) -> None:
    """Members of both versions at once, for most of the time is spent waiting."""
    conf = {"channelExpiredTimeout": EXPIRED_MS, LOCK_KEY: LOCK_MS}
    cluster = Cluster(server_kind, tmp_path / "cluster", conf=conf)
    if isinstance(cluster.broker, JavaBroker):
        cluster.broker.jvm = (*compact_jvm(), f"-D{LOCK_KEY}={LOCK_MS}")
    running: list[Member] = []
    with cluster:
        try:
            _fall_silent_and_wake(cluster, running, tmp_path)
        finally:
            for member in running:
                member.end()


def _fall_silent_and_wake(cluster: Cluster, running: list[Member], folder: Path) -> None:
    topics = {(client, way): f"{client.prefix}_members_{way}" for client in SILENT for way in WAYS}
    make_topics(cluster, list(topics.values()))

    def join(name: str, client: Client) -> Member:
        running.append(member := Member(f"{client.name}-{name}", client, cluster, "member", folder))
        return member

    groups = [(join("sleeper", client), join("other", client)) for client in SILENT]
    with Sender(cluster, list(topics.values())) as sender:
        for group in groups:
            share(*group)
            consume(20, *group)
        for sleeper, _ in groups:
            sleeper.pause()
        silent_since = time.monotonic()
        for _, other in groups:
            await_that("the other one has all queues", lambda o=other: all(hold(way, o) for way in WAYS[:2]))
        moved_s = time.monotonic() - silent_since
        assert EXPIRED_MS / 1000 - 1 < moved_s < EXPIRED_MS / 1000 + LOOKED_AT_EVERY_S + 10
        for _, other in groups:
            consume(20, other)
        for sleeper, _ in groups:
            sleeper.resume()
        for group in groups:
            share(*group)
            consume(20, *group)
    for client, group in zip(SILENT, groups, strict=True):
        for way in WAYS:
            sent = set(sender.sent[topics[client, way]])
            heard = [[member] for member in group] if way == "broadcast" else [list(group)]
            for members in heard:
                await_that(
                    f"nothing is lost, {way}",
                    lambda w=way, m=members, s=sent: bodies([one for member in m for one in member.got(w)]) == s,
                )
        for member in group:
            member.leave()
