"""A slave that stands in for its lost master, and the notices that its group gets."""

from __future__ import annotations

from tests.unit.namesrv.registering import MASTER, SLAVE, SLAVE_2, register, table

from cometmq.namesrv.brokers import BrokerIdentity, Notice
from cometmq.namesrv.route_table import MEMBER_SYNC_PREFIX, RouteTable

ACTING = {"support_acting_master": True, "notify_min_broker_id_changed": True}


def group(**changed: bool) -> RouteTable:
    routes = table(**ACTING | changed)
    for who in (MASTER, SLAVE, SLAVE_2):
        register(routes, who, "T", MEMBER_SYNC_PREFIX + "a", enable_acting_master=True)
    return routes


def seen(routes: RouteTable, topic: str = "T") -> dict[int, str]:
    route = routes.route(topic)
    assert route is not None
    return route.brokers[0].addrs


def test_the_first_slave_is_shown_as_master_and_only_to_read() -> None:
    routes = group()
    routes.unregister([MASTER])
    assert seen(routes) == {0: SLAVE.addr, 2: SLAVE_2.addr}
    assert routes.topics["T"]["a"].perm == 4
    assert routes.members("a") == {1: SLAVE.addr, 2: SLAVE_2.addr}


def test_it_is_not_while_the_master_is_there_or_where_nobody_wants_it() -> None:
    assert seen(group()) == {0: MASTER.addr, 1: SLAVE.addr, 2: SLAVE_2.addr}
    routes = group(support_acting_master=False)
    routes.unregister([MASTER])
    assert seen(routes) == {1: SLAVE.addr, 2: SLAVE_2.addr}


def test_the_topic_by_which_members_find_each_other_tells_the_truth() -> None:
    routes = group()
    routes.unregister([MASTER])
    assert seen(routes, MEMBER_SYNC_PREFIX + "a") == {1: SLAVE.addr, 2: SLAVE_2.addr}


def test_brokers_that_do_not_know_of_it_stay_as_they_are() -> None:
    routes = table(**ACTING)
    register(routes, MASTER, "T")
    register(routes, SLAVE, "T")
    assert routes.unregister([MASTER]) == []
    assert seen(routes) == {1: SLAVE.addr}
    assert routes.topics["T"]["a"].perm == 6


def test_who_remains_is_told_of_a_loss() -> None:
    (notice,) = group().unregister([MASTER])
    assert notice.addrs == [SLAVE.addr, SLAVE_2.addr]
    assert notice.message.min_broker_id == 1
    assert notice.message.min_broker_addr == SLAVE.addr
    assert notice.message.offline_broker_addr == MASTER.addr


def test_nobody_is_told_of_a_slave_that_was_not_first_nor_of_a_group_that_is_gone() -> None:
    assert group().unregister([SLAVE_2]) == []
    assert group().unregister([MASTER, SLAVE, SLAVE_2]) == []
    assert group(notify_min_broker_id_changed=False).unregister([MASTER]) == []


def test_losses_of_connections_and_silence_are_told_too() -> None:
    assert len(group().lost(MASTER.addr)) == 1
    routes = group()
    for who in (SLAVE, SLAVE_2):
        routes.heard("C", who.addr, 100_000)
    connections, notices = routes.expire(120_001)
    assert connections == [MASTER.addr] and len(notices) == 1


def test_who_was_there_is_told_of_a_master_that_returns() -> None:
    routes = group()
    routes.unregister([MASTER])
    back = register(routes, MASTER, "T", enable_acting_master=True, counter=2)
    (notice,) = back.notices
    assert notice == Notice([SLAVE.addr, SLAVE_2.addr], notice.message)
    assert notice.message.min_broker_addr == MASTER.addr
    assert notice.message.ha_broker_addr == f"ha of {MASTER.addr}"
    assert routes.topics["T"]["a"].perm == 6


def test_the_first_of_a_group_is_news_to_nobody() -> None:
    first = register(table(**ACTING), BrokerIdentity("C", "n", "10.0.3.1:1", 3), "T", enable_acting_master=True)
    assert first.notices == []
