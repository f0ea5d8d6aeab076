"""Members: joining, leaving, expiring, and who is told of it."""

from __future__ import annotations

import pytest

from cometmq.broker import members as module
from cometmq.broker.members import Client, Members
from cometmq.model.subscription import SubscriptionData
from cometmq.wire.bodies.heartbeat import BROADCASTING, ConsumerData
from cometmq.wire.schema import Header

from .state_kit import StillClock


class Wire:
    """The far end of a connection: what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.is_open = True

    def notify(self, request: Header) -> None:
        self.told.append(request.consumer_group)  # type: ignore[attr-defined]

    def close(self, why: str = "") -> None:
        self.is_open = False


def data(group: str = "g", *topics: str, version: int = 1, **how: str) -> ConsumerData:
    return ConsumerData(group, subscriptions=[SubscriptionData(topic, sub_version=version) for topic in topics], **how)  # type: ignore[arg-type]


def joined(members: Members, group: str = "g", *topics: str) -> Wire:
    wire = Wire()
    members.register_consumer(Client(wire, f"c{id(wire)}"), data(group, *topics))
    return wire


def test_all_members_hear_of_a_new_one() -> None:
    members = Members(StillClock())
    first, second = joined(members, "g", "t"), joined(members, "g", "t")
    assert first.told == ["g", "g"]
    assert second.told == ["g"]
    group = members.consumer_group("g")
    assert group is not None
    assert len(group.client_ids) == 2
    assert members.subscribers_of("t") == {"g"}


def test_a_heartbeat_with_nothing_new_tells_nobody() -> None:
    members = Members(StillClock())
    wire = joined(members, "g", "t")
    assert not members.register_consumer(Client(wire, "c"), data("g", "t", version=2))
    assert wire.told == ["g"]
    assert members.subscription("g", "t").sub_version == 2  # type: ignore[union-attr]


def test_an_older_subscription_does_not_replace_a_newer_one() -> None:
    members = Members(StillClock())
    wire = Wire()
    members.register_consumer(Client(wire, "c"), data("g", "t", version=5))
    members.register_consumer(Client(wire, "c"), data("g", "t", version=4))
    assert members.subscription("g", "t").sub_version == 5  # type: ignore[union-attr]


def test_topics_come_and_go_with_heartbeats() -> None:
    members = Members(StillClock())
    wire = joined(members, "g", "a", "b")
    assert members.register_consumer(Client(wire, "c"), data("g", "b", "c"))
    group = members.consumer_group("g")
    assert group is not None
    assert set(group.subscriptions) == {"b", "c"}
    assert members.register_consumer(Client(wire, "c"), data("g"), with_subscriptions=False) is False
    assert set(group.subscriptions) == {"b", "c"}


def test_broadcasting_groups_are_not_told() -> None:
    members = Members(StillClock())
    wires = [Wire(), Wire()]
    for wire in wires:
        members.register_consumer(Client(wire, "c"), data("g", "t", message_model=BROADCASTING))
    members.closed(wires[0])
    assert wires[1].told == []
    assert members.consumer_group("g").is_broadcasting  # type: ignore[union-attr]


def test_those_who_stay_hear_of_a_goodbye() -> None:
    members = Members(StillClock())
    first, second = joined(members), joined(members)
    members.unregister_consumer(second, "g")
    assert first.told == ["g", "g", "g"]
    assert len(members.consumer_group("g").clients) == 1  # type: ignore[union-attr]
    members.unregister_consumer(first, "g")
    assert members.consumer_group("g") is None
    members.unregister_consumer(first, "g")
    members.unregister_producer(first, "p")


def test_a_closed_connection_leaves_every_group_once() -> None:
    members = Members(StillClock())
    stays, goes = joined(members, "a"), Wire()
    for group in ("a", "b"):
        members.register_consumer(Client(goes, "c"), data(group))
    members.register_producer(Client(goes, "c"), "p")
    members.closed(goes)
    members.closed(goes)
    assert members.consumer_group("b") is None
    assert members.producers_of("p") == []
    assert list(members.producer_groups()) == []
    assert stays.told == ["a"] * 3
    assert members._groups_of.keys() == {stays}


def test_silence_expires_a_member_and_closes_it() -> None:
    clock = StillClock()
    members = Members(clock, expire_ms=120_000)
    quiet, loud = joined(members), joined(members)
    members.register_producer(Client(quiet, "c"), "p")
    clock.time_ms += 120_000
    members.expire()
    assert quiet.is_open
    members.register_consumer(Client(loud, "c"), data())
    clock.time_ms += 1
    members.expire()
    assert not quiet.is_open
    assert loud.is_open
    assert loud.told == ["g", "g"]  # it joined, the quiet one left
    assert members.producers_of("p") == []


def test_a_reused_connection_takes_the_new_client_id() -> None:
    members = Members(StillClock())
    wire = Wire()
    members.register_consumer(Client(wire, "old"), data())
    members.register_consumer(Client(wire, "new"), data())
    assert members.consumer_group("g").client_ids == ["new"]  # type: ignore[union-attr]


def test_fingerprints_change_or_not() -> None:
    members = Members(StillClock())
    assert not members.fingerprint_changed("g", 5)
    assert not members.fingerprint_changed("g", 5)
    assert members.fingerprint_changed("g", 6)


def test_one_connection_cannot_fill_the_memory() -> None:
    members = Members(StillClock())
    wire = Wire()
    for number in range(module.GROUPS_PER_CONNECTION_MAX + 10):
        members.register_producer(Client(wire, "c"), f"p{number}")
        members.register_consumer(Client(wire, "c"), data(f"g{number}"), notify=False)
    assert len(list(members.producer_groups())) == module.GROUPS_PER_CONNECTION_MAX
    assert len(list(members.consumer_groups())) == module.GROUPS_PER_CONNECTION_MAX


def test_a_clock_that_is_set_forward_throws_nobody_out() -> None:
    class SetForward(StillClock):
        def now_ms(self) -> int:
            return super().now_ms() + self.ahead_ms

        ahead_ms = 0

    clock = SetForward()
    members = Members(clock)
    wire = joined(members)
    clock.ahead_ms = 3_600_000
    members.expire()
    assert wire.is_open


def test_subscriptions_that_come_with_requests_are_remembered_for_a_while() -> None:
    clock = StillClock()
    members = Members(clock, brought_live_ms=1_000)
    members.brought("g", SubscriptionData("t"))
    assert members.subscription("g", "t") == SubscriptionData("t")
    joined(members, "g", "t")
    assert members.subscription("g", "t").sub_version == 1  # type: ignore[union-attr]
    clock.time_ms += 1_001
    members.expire()
    assert members.subscription("g", "t") is not None
    members.brought("h", SubscriptionData("t"))
    clock.time_ms += 1_001
    members.expire()
    assert members.subscription("h", "t") is None


def test_no_more_than_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BROUGHT_MAX", 2)
    members = Members(StillClock())
    for group in ("a", "b", "c"):
        members.brought(group, SubscriptionData("t"))
    assert [members.subscription(group, "t") is not None for group in ("a", "b", "c")] == [False, True, True]
