"""Two name servers of which one is stopped in the middle, and a broker that creates no topics by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.interop.clients import CLIENTS, Client, Outcome, Program
from tests.original import Cluster
from tests.original.cluster import Kind

# Which header form a client speaks makes no difference here.
CLIENTS_HERE = [client for client in CLIENTS if not client.name.endswith("binary")]

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def outcomes(server_kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Outcome]]:
    """All clients at once: a name server that was stopped has to stay so until the last of them is done."""
    folder = tmp_path_factory.mktemp("two-name-servers")
    with ExitStack() as stack:
        cluster = stack.enter_context(
            Cluster(server_kind, folder, namesrvs=2, conf={"autoCreateTopicEnable": False})
        )  # fmt: skip
        programs = []
        for client in CLIENTS_HERE:
            program = Program(client, cluster, ["auto_create_off", "failover"], folder / client.name)
            stack.callback(program.end)
            programs.append(program)
        for program in programs:
            program.await_line("phase")
        cluster.namesrvs[0].stop()
        for program in programs:
            program.go_on()
        yield {program.client.name: program.finish() for program in programs}


@pytest.mark.parametrize("client", CLIENTS_HERE, ids=lambda client: client.name)
def test_clients_go_on_with_the_other_name_server(outcomes: dict[str, Outcome], client: Client) -> None:
    facts = outcomes[client.name]["failover"]
    assert facts["chosen"] == 2
    senders = [f"p{n}" for n in range(facts["producers"])]
    assert sorted(facts["before"]) == sorted(senders * 2)
    assert sorted(facts["after"]) == sorted(senders)


@pytest.mark.parametrize("client", CLIENTS_HERE, ids=lambda client: client.name)
def test_a_topic_is_not_created_where_that_is_off(outcomes: dict[str, Outcome], client: Client) -> None:
    facts = outcomes[client.name]["auto_create_off"]
    assert facts == {"refused": True, "deleted_code": 17, "pattern_known": False, "created": False}
