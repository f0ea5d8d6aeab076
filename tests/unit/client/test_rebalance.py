"""Dividing queues: as Java does, and each queue once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.client.rebalance import (
    AssignmentStrategy,
    Averagely,
    ByCircle,
    ByConfig,
    ConsistentHash,
    MachineRoom,
    NearbyRoom,
    assign,
    strategy_of,
)
from cometmq.errors import InvalidArgument
from cometmq.model.queue import MessageQueue

SHARES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "golden" / "client" / "shares.json").read_text())
BROKERS = ("east@a", "west@b", "north@c", "plain")


def nearby(within: AssignmentStrategy) -> NearbyRoom:
    return NearbyRoom(within, lambda queue: str(queue.broker_name).split("@")[0], lambda client: client.split("-")[0])


ALL: tuple[AssignmentStrategy, ...] = (
    Averagely(),
    ByCircle(),
    MachineRoom(["east", "north"]),
    nearby(Averagely()),
    nearby(ByCircle()),
    ConsistentHash(),
)


@pytest.mark.parametrize("row", SHARES, ids=lambda row: f"{row['strategy']}-{row['brokers']}-{row['queues']}")
def test_as_java(row: dict[str, Any]) -> None:
    strategy = next(strategy for strategy in ALL if strategy.name == row["strategy"])
    queues = [
        MessageQueue("orders", name, number) for name in BROKERS[: row["brokers"]] for number in range(row["queues"])
    ]
    for client, share in row["shares"].items():
        found = assign(strategy, client, reversed(queues), reversed(row["shares"]))
        assert found is not None
        assert " ".join(f"{queue.broker_name}:{queue.queue_id}" for queue in found) == share


rooms = st.sampled_from(["east", "west", "south"])
queue_lists = st.sets(
    st.builds(MessageQueue, st.just("t"), st.builds("{}@b{}".format, rooms, st.integers(0, 3)), st.integers(0, 15)),
    min_size=1,
)
client_lists = st.sets(st.builds("{}-{}".format, rooms, st.integers(0, 99)), min_size=1, max_size=12)


@pytest.mark.parametrize("strategy", [*ALL[:2], *ALL[3:], ConsistentHash(3, hash)], ids=lambda strategy: strategy.name)
@given(queues=queue_lists, clients=client_lists)
@settings(deadline=None)
def test_every_queue_exactly_once(strategy: AssignmentStrategy, queues: set[MessageQueue], clients: set[str]) -> None:
    given_out: list[MessageQueue] = []
    for client in clients:
        given_out += assign(strategy, client, queues, clients) or []
    assert sorted(given_out) == sorted(queues)


@given(queues=queue_lists, clients=client_lists)
@settings(deadline=None)
def test_machine_rooms_of_others_are_left_alone(queues: set[MessageQueue], clients: set[str]) -> None:
    given_out: list[MessageQueue] = []
    for client in clients:
        given_out += assign(MachineRoom(["east"]), client, queues, clients) or []
    assert sorted(given_out) == sorted(queue for queue in queues if str(queue.broker_name).startswith("east@"))


def test_configured_queues() -> None:
    mine, other = MessageQueue("t", "b", 3), MessageQueue("u", "b", 1)
    assert assign(ByConfig([mine, other]), "a", [MessageQueue("t", "b", 0)], ["a"]) == [mine]


@pytest.mark.parametrize(("queues", "clients"), [([], ["a"]), ([MessageQueue("t", "b", 0)], []), ([], []),
                                                  ([MessageQueue("t", "b", 0)], ["other"])])  # fmt: skip
def test_who_is_not_counted_keeps_what_it_has(queues: Sequence[MessageQueue], clients: Sequence[str]) -> None:
    assert assign(Averagely(), "a", queues, clients) is None


def test_bad_input() -> None:
    with pytest.raises(InvalidArgument):
        ConsistentHash(0)
    with pytest.raises(InvalidArgument, match="ByConfig"):
        strategy_of("CONFIG")
    with pytest.raises(InvalidArgument, match="machine room"):
        NearbyRoom(Averagely(), lambda _: "", str).share("a", [MessageQueue("t", "b", 0)], ["a"])
    assert strategy_of("AVG_BY_CIRCLE").name == "AVG_BY_CIRCLE"
