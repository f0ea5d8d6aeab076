"""The route table: what registrations change, what is answered, and what garbage leaves behind."""

from __future__ import annotations

import pytest
from tests.unit.namesrv.registering import MASTER, OTHER, SLAVE, register, table

from cometmq.errors import RequestRefused
from cometmq.model.data_version import DataVersion
from cometmq.model.route import QueueData, QueueMapping
from cometmq.model.topic import TopicConfig
from cometmq.namesrv import route_table
from cometmq.namesrv.brokers import BrokerIdentity
from cometmq.namesrv.route_table import RouteTable
from cometmq.wire.bodies.registration import Registration


def addrs(routes: RouteTable, topic: str) -> dict[str, dict[int, str]]:
    route = routes.route(topic)
    return {} if route is None else {broker.broker_name: broker.addrs for broker in route.brokers}


def perms(routes: RouteTable, topic: str) -> dict[str, int]:
    route = routes.route(topic)
    return {} if route is None else {queue.broker_name: queue.perm for queue in route.queues}


def test_a_registered_topic_has_a_route() -> None:
    routes = table()
    register(routes, MASTER, "T")
    register(routes, OTHER, "T")
    assert addrs(routes, "T") == {"a": {0: MASTER.addr}, "b": {0: OTHER.addr}}
    assert routes.clusters == {"C": {"a": None, "b": None}}


def test_an_unknown_topic_has_none() -> None:
    assert table().route("T") is None


def test_a_slave_learns_its_master_and_says_nothing_about_topics() -> None:
    routes = table()
    register(routes, MASTER, TopicConfig("T", 4, 4))
    learnt = register(routes, SLAVE, TopicConfig("T", 8, 8), "only-here", enable_acting_master=True)
    assert (learnt.master_addr, learnt.ha_addr) == (MASTER.addr, f"ha of {MASTER.addr}")
    assert addrs(routes, "T") == {"a": {0: MASTER.addr, 1: SLAVE.addr}}
    assert routes.topics["T"]["a"].read_queue_nums == 4
    assert "only-here" not in routes.topics


def test_a_slave_without_a_master_speaks_only_if_it_may_stand_in() -> None:
    routes = table()
    register(routes, SLAVE, "T")
    assert routes.route("T") is None
    register(routes, SLAVE, "T", enable_acting_master=False)
    assert perms(routes, "T") == {"a": 6}
    register(routes, SLAVE, "T", enable_acting_master=True, counter=2)
    assert perms(routes, "T") == {"a": 4}


def test_the_same_version_changes_only_what_is_missing() -> None:
    routes = table()
    register(routes, MASTER, TopicConfig("T", 4, 4), "U")
    routes.delete_topic("U")
    register(routes, MASTER, TopicConfig("T", 9, 9), "U")
    assert routes.topics["T"]["a"].read_queue_nums == 4
    assert "U" in routes.topics
    register(routes, MASTER, TopicConfig("T", 9, 9), counter=2)
    assert routes.topics["T"]["a"].read_queue_nums == 9


def test_topics_that_a_broker_no_longer_has_go_if_that_is_wanted() -> None:
    for wanted, left in ((False, True), (True, False)):
        routes = table(delete_topic_with_broker_registration=wanted)
        register(routes, MASTER, "T")
        register(routes, MASTER, "U", counter=2)
        assert ("T" in routes.topics) is left


def test_one_topic_of_an_unknown_broker_is_refused_and_leaves_no_trace() -> None:
    routes = table()
    alone = Registration(DataVersion(), {"T": TopicConfig("T")})
    with pytest.raises(RequestRefused, match="register broker failed"):
        routes.register(MASTER, alone, now_ms=0, connection=None)
    assert not routes.brokers and not routes.clusters
    register(routes, MASTER, "U")
    routes.register(MASTER, alone, now_ms=0, connection=None)
    assert "T" in routes.topics


def test_a_registration_without_a_table_is_ignored() -> None:
    routes = table()
    routes.register(MASTER, Registration(DataVersion(), None), now_ms=0, connection=None)
    assert not routes.brokers


def test_a_replaced_master_that_comes_back_late_is_ignored() -> None:
    routes = table()
    newer = BrokerIdentity("C", "a", "10.0.0.7:10911", 0)
    register(routes, newer, "T", state=5)
    register(routes, MASTER, "T", state=4)
    assert routes.members("a") == {0: newer.addr}
    register(routes, MASTER, "T", state=5)
    assert routes.members("a") == {0: MASTER.addr}


def test_a_slave_that_becomes_master_moves() -> None:
    routes = table()
    register(routes, MASTER, "T")
    register(routes, SLAVE, "T")
    routes.unregister([MASTER])
    register(routes, BrokerIdentity("C", "a", SLAVE.addr, 0), "T")
    assert routes.members("a") == {0: SLAVE.addr}


def test_an_unregistered_broker_takes_its_topics_along() -> None:
    routes = table()
    register(routes, MASTER, "T", "only-a")
    register(routes, OTHER, "T")
    routes.unregister([MASTER])
    assert addrs(routes, "T") == {"b": {0: OTHER.addr}}
    assert "only-a" not in routes.topics
    routes.unregister([OTHER])
    assert (routes.topics, routes.brokers, routes.clusters) == ({}, {}, {})


def test_leaving_twice_or_unknown_means_nothing() -> None:
    routes = table()
    register(routes, MASTER, "T")
    stranger = BrokerIdentity("Z", "zz", "1.1.1.1:1", 3)
    assert routes.unregister([stranger, stranger]) == []
    assert routes.lost("nobody") == []
    routes.heard("Z", "1.1.1.1:1", 5)
    assert addrs(routes, "T") == {"a": {0: MASTER.addr}}


def test_a_lost_connection_takes_all_brokers_that_came_over_it() -> None:
    routes = table()
    register(routes, MASTER, "T", connection="one")
    register(routes, OTHER, "T", connection="one")
    routes.lost("one")
    assert routes.route("T") is None


def test_the_loss_of_an_old_connection_means_nothing() -> None:
    routes = table()
    register(routes, MASTER, "T", connection="old")
    register(routes, MASTER, "T", connection="new")
    routes.lost("old")
    assert routes.route("T") is not None
    routes.lost("new")
    assert routes.route("T") is None


def test_silence_is_measured_with_the_timeout_of_the_broker() -> None:
    routes = table()
    register(routes, MASTER, "T", now_ms=0)
    register(routes, OTHER, "T", now_ms=0, timeout_ms=10_000)
    assert routes.expire(10_000) == ([], [])
    assert routes.expire(10_001) == ([OTHER.addr], [])
    routes.heard("C", MASTER.addr, 60_000)
    assert routes.expire(180_000)[0] == []
    assert routes.expire(180_001)[0] == [MASTER.addr]
    assert not routes.brokers


def test_versions_are_compared() -> None:
    routes = table()
    register(routes, MASTER, "T", counter=7)
    assert not routes.is_changed("C", MASTER.addr, DataVersion(0, 1, 7))
    assert routes.is_changed("C", MASTER.addr, DataVersion(0, 1, 8))
    assert routes.is_changed("C", MASTER.addr, None)
    assert routes.is_changed("C", "1.1.1.1:1", DataVersion())


def test_write_permission_is_wiped_and_given_back() -> None:
    routes = table()
    register(routes, MASTER, TopicConfig("T", 4, 4, perm=6), TopicConfig("S", 4, 4, perm=4))
    assert routes.wipe_write_perm("a") == 3
    assert perms(routes, "T") == {"a": 4}
    assert routes.add_write_perm("a") == 3
    assert perms(routes, "S") == {"a": 6}
    assert routes.wipe_write_perm("nobody") == 0


def test_topics_are_deleted_from_one_cluster_or_all() -> None:
    routes = table()
    register(routes, MASTER, "T")
    register(routes, BrokerIdentity("D", "d", "10.0.1.1:10911", 0), "T")
    routes.delete_topic("T", "nowhere")
    routes.delete_topic("T", "C")
    assert list(addrs(routes, "T")) == ["d"]
    routes.delete_topic("T")
    routes.delete_topic("T")
    assert routes.route("T") is None


def test_topics_are_registered_by_hand_on_known_brokers() -> None:
    routes = table()
    register(routes, MASTER, "T")
    routes.register_topic("N", [])
    routes.register_topic("N", [QueueData("a", 1, 1, 6), QueueData("zz", 1, 1, 6)])
    assert "N" not in routes.topics
    routes.register_topic("N", [QueueData("a", 1, 1, 6)])
    assert addrs(routes, "N") == {"a": {0: MASTER.addr}}


def test_lists_of_topics() -> None:
    routes = table()
    assert routes.system_topics() == ([], None)
    flags = {"none": 0, "unit": 1, "sub": 2, "both": 3}
    register(routes, MASTER, *(TopicConfig(name, sys_flag=flag) for name, flag in flags.items()))
    assert routes.topics_with_flag(has=1) == ["unit", "both"]
    assert routes.topics_with_flag(has=2) == ["sub", "both"]
    assert routes.topics_with_flag(has=2, lacks=1) == ["sub"]
    assert routes.topics_of_cluster("C") == [*flags, "x"]
    assert routes.topics_of_cluster("D") == []
    assert routes.system_topics() == (["C", "a"], MASTER.addr)


def test_filter_servers_zone_and_mappings_are_in_the_route() -> None:
    routes = table()
    mapping = QueueMapping("T", "a", total_queues=2, epoch=7, current_ids={0: 0})
    register(routes, MASTER, "T", zone_name="z", filter_servers=["f:1"], queue_mappings={"T": mapping})
    route = routes.route("T")
    assert route is not None
    assert route.filter_servers == {MASTER.addr: ["f:1"]}
    assert route.queue_mappings == {"a": mapping}
    assert route.brokers[0].zone_name == "z"
    register(routes, MASTER, "T", filter_servers=[])
    route = routes.route("T")
    assert route is not None and route.filter_servers == {}


def test_a_zone_hides_the_brokers_of_others() -> None:
    routes = table()
    register(routes, MASTER, "T", zone_name="near", filter_servers=["f:1"])
    register(routes, OTHER, "T", zone_name="far", filter_servers=["f:2"])
    route = routes.route("T")
    assert route is not None
    seen = route.in_zone("NEAR")
    assert [broker.broker_name for broker in seen.brokers] == ["a"]
    assert [queue.broker_name for queue in seen.queues] == ["a"]
    assert list(seen.filter_servers) == [MASTER.addr]


def test_an_answer_is_not_changed_by_what_comes_later() -> None:
    routes = table()
    register(routes, MASTER, "T")
    before = routes.route("T")
    routes.wipe_write_perm("a")
    routes.unregister([MASTER])
    assert before is not None
    assert before.queues[0].perm == 6 and before.brokers[0].addrs == {0: MASTER.addr}


def test_the_number_of_brokers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_table, "BROKERS_MAX", 1)
    routes = table()
    register(routes, MASTER, "T")
    with pytest.raises(RequestRefused, match="most allowed"):
        register(routes, OTHER, "T")
    register(routes, MASTER, "T")
