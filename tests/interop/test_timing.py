"""Messages for any time as Apache RocketMQ's own clients send them: once, at their time, unless called back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.interop.clients import GO_CLIENT, JAVA_CLIENTS, Client, Outcome, Program
from tests.original import Cluster
from tests.original.cluster import Kind

pytestmark = pytest.mark.timeout(300)

SENDERS = (JAVA_CLIENTS[0], JAVA_CLIENTS[2], GO_CLIENT)
LATE_MS_MAX = 1_000
MESSAGE_ILLEGAL = 13


@pytest.fixture(scope="module")
def outcomes(server_kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Outcome]]:
    folder = tmp_path_factory.mktemp("timing")
    with Cluster(server_kind, folder, conf={"recallMessageEnable": "true"}) as cluster:
        for one in SENDERS:
            one.command(folder)  # built, so that both start together
        programs = [Program(one, cluster, ["timed"], folder / one.name) for one in SENDERS]
        yield {program.client.name: program.finish() for program in programs}


@pytest.mark.parametrize("client", SENDERS, ids=lambda client: client.name)
def test_timed(client: Client, outcomes: dict[str, Outcome], server_kind: Kind) -> None:
    facts = outcomes[client.name]["timed"]
    new = client is SENDERS[0]  # the only one that can recall; the other of Java sends that message all the same
    wanted = {"sec", "ms", "at", "past", "last"} | ({"recalled"} if client is SENDERS[1] else set())
    assert set(facts["late_ms"]) == wanted
    assert facts["count"] == len(wanted)
    assert facts["recalled"] == ("the same" if new else None)
    assert facts["too_far"] == MESSAGE_ILLEGAL
    late_ms = facts["late_ms"]
    assert min(late for name, late in late_ms.items() if name != "past") >= 0
    if server_kind == "comet":
        # Of the others the delay begins when the broker has them, and the first send takes its time.
        assert max(late_ms["at"], late_ms["last"]) <= LATE_MS_MAX
