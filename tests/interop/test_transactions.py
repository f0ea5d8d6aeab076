"""Transactions as Apache RocketMQ's own clients make them, over a broker that is killed in the middle.

Nothing that was committed is lost, nothing that was rolled back is seen, and nothing is seen twice.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.interop.clients import GO_CLIENT, JAVA_CLIENTS, Client, Outcome, Program
from tests.original import Cluster
from tests.original.cluster import Kind

pytestmark = pytest.mark.timeout(900)

TRANSACTORS = (JAVA_CLIENTS[0], JAVA_CLIENTS[2], GO_CLIENT)
CONF = {"transactionTimeOut": 1_000, "transactionCheckInterval": 500, "transactionCheckMax": 200}

every_transactor = pytest.mark.parametrize("client", TRANSACTORS, ids=lambda client: client.name)


@pytest.fixture(scope="module")
def outcomes(server_kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Outcome]]:
    """All clients at once, and one kill."""
    folder = tmp_path_factory.mktemp("transactions")
    with Cluster(server_kind, folder, flush="SYNC_FLUSH", conf=CONF) as cluster:
        for one in TRANSACTORS:
            one.command(folder)  # built, so that all start together
        programs = [Program(one, cluster, ["transactions"], folder / one.name) for one in TRANSACTORS]
        try:
            for program in programs:
                program.await_line("phase")
            cluster.broker.kill()
            cluster.broker.start()
            for program in programs:
                program.go_on()
            yield {program.client.name: program.finish() for program in programs}
        finally:
            for program in programs:
                program.end()


@every_transactor
def test_every_committed_transaction_is_seen_and_no_other(outcomes: dict[str, Outcome], client: Client) -> None:
    facts = outcomes[client.name]["transactions"]
    assert facts["lost"] == []
    assert facts["extra"] == []
    assert facts["expected"] > 30


@every_transactor
def test_no_transaction_is_seen_twice(outcomes: dict[str, Outcome], client: Client, server_kind: Kind) -> None:
    if server_kind == "java":
        pytest.skip("Apache RocketMQ may deliver a checked transaction again")
    assert outcomes[client.name]["transactions"]["twice"] == 0


@every_transactor
def test_every_producer_of_the_group_is_asked(outcomes: dict[str, Outcome], client: Client) -> None:
    assert all(count > 2 for count in outcomes[client.name]["transactions"]["asked"])
