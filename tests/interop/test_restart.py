"""A broker that is restarted gracefully, and a topic of batches, as the newest Java client sees them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.interop.clients import JAVA_CLIENTS, Outcome, Program
from tests.original import Cluster, CometBroker, JavaBroker
from tests.original.cluster import Kind

pytestmark = pytest.mark.timeout(900)

NEWEST = JAVA_CLIENTS[0]


@pytest.fixture(scope="module")
def outcome(server_kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outcome]:
    """Two brokers; the first is stopped and started again while the client sends."""
    folder = tmp_path_factory.mktemp("restart")
    conf = {"enableShutdownGracefully": True, "shutdownWaitTimeSeconds": 2}
    make = JavaBroker if server_kind == "java" else CometBroker
    with Cluster(server_kind, folder, conf=conf) as cluster:
        other = make(folder / "other", cluster.addrs(), name="broker-b")
        with other:
            program = Program(NEWEST, cluster, ["batch_queue", "restart"], folder / "client")
            try:
                program.await_line("phase")
                cluster.broker.stop(timeout_s=60)
                cluster.broker.start()
                program.go_on()
                yield program.finish()
            finally:
                program.end()
            other.kill()


def test_no_send_fails_and_none_is_lost_over_a_graceful_restart(outcome: Outcome) -> None:
    facts = outcome["restart"]
    assert facts["failures"] == []
    assert facts["lost"] == []
    assert facts["acknowledged"] > 100


def test_the_stopping_broker_sends_its_clients_away(outcome: Outcome) -> None:
    told = outcome["restart"]["told"]
    assert told["GO_AWAY"] > 0
    assert told["stored"] > 0


def test_batches_are_unwrapped_by_the_client(outcome: Outcome) -> None:
    facts = outcome["batch_queue"]
    assert facts["offsets"] == [0, 3, 4, 54, 56]
    bodies = [f"b{batch}.{n}" for batch, size in enumerate((3, 1, 50, 2)) for n in range(size)] + ["alone"]
    assert facts["pulled"] == bodies
    assert facts["places"] == list(range(57))
    assert facts["ids"] == 4
    assert facts["end"] == 57
    assert facts["from_inside"] == ["b2.26"]  # the broker gives the batch, the client picks what was asked for
