"""Fixtures: the server under test and, for each client, one run of all its scenarios.

COMETMQ_INTEROP_SERVER=java runs the same tests against Apache RocketMQ, which proves the tests themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
from tests.interop.clients import CLIENTS, JAVA_CLIENTS, Client, Outcome, Program
from tests.original import Cluster
from tests.original.cluster import Kind

CONF = {"enablePropertyFilter": "true", "messageDelayLevel": "1s 1s 1s 1s 1s 1s", "traceTopicEnable": "true"}

# In this order: `push` and `poll` read what `thousand` sent.
SCENARIOS = (
    "thousand", "push", "poll", "batch", "oneway", "async", "properties", "large", "too_large", "long_properties",
    "absent", "tags", "sql", "wake", "commit", "create", "delete", "retries", "request", "trace",
)  # fmt: skip
# What the Go client has no public call for.
JAVA_SCENARIOS = ("query", "offsets", "compressed", "beginnings")


@pytest.fixture(scope="session")
def server_kind() -> Kind:
    kind = os.environ.get("COMETMQ_INTEROP_SERVER", "comet")
    if kind not in ("comet", "java"):
        raise ValueError(f"COMETMQ_INTEROP_SERVER is {kind!r}; it may be 'comet' or 'java'")
    return cast(Kind, kind)


@pytest.fixture(scope="session")
def cluster(server_kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(server_kind, tmp_path_factory.mktemp("cluster"), flush="SYNC_FLUSH", conf=CONF) as running:
        yield running


@pytest.fixture(scope="session")
def outcome_of(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Client], Outcome]]:
    """A function: the outcome of a client's run, which begins when it is first asked for, or while the one before runs.

    Clients mostly wait; each has topics and groups of its own.
    """
    programs: dict[str, Program] = {}
    known: dict[str, Outcome] = {}

    def start(client: Client) -> None:
        if client.name not in programs:
            scenarios = SCENARIOS + (JAVA_SCENARIOS if client in JAVA_CLIENTS else ())
            home: Path = tmp_path_factory.mktemp("client") / client.name
            programs[client.name] = Program(client, cluster, scenarios, home)

    def ask(client: Client) -> Outcome:
        at = CLIENTS.index(client)
        for one in CLIENTS[at : at + 2]:
            start(one)
        if client.name not in known:
            known[client.name] = programs[client.name].finish()
        return known[client.name]

    yield ask
    for program in programs.values():
        program.end()


@pytest.fixture
def outcome(request: pytest.FixtureRequest, outcome_of: Callable[[Client], Outcome]) -> Outcome:
    """The outcome of the client that the test is parametrized with."""
    return outcome_of(request.param)
