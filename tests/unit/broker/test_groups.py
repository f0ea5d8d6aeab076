"""Groups: those that always exist, those made by use, changes by admins, and what survives."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from cometmq.broker.config import BrokerConfig
from cometmq.broker.groups import Groups
from cometmq.errors import RequestRefused
from cometmq.model.group import GroupConfig

from .state_kit import MemoryTable, StillClock, file_table

CONFIG = BrokerConfig()
CLOSED = dataclasses.replace(CONFIG, auto_create_subscription_group=False)


def groups_of(table: MemoryTable | None = None, config: BrokerConfig = CONFIG) -> Groups:
    return Groups(table or MemoryTable(), config, StillClock())


def test_a_new_broker_has_the_groups_of_the_original() -> None:
    # As Apache RocketMQ 5.5.0 makes them at its start, and as it answers for a group that was made just now.
    of_the_tools = {"TOOLS_CONSUMER", "FILTERSRV_CONSUMER", "SELF_TEST_C_GROUP", "CID_RMQ_SYS_TRANS"}
    of_the_cloud = {"CID_ONS-HTTP-PROXY", "CID_ONSAPI_PULL", "CID_ONSAPI_PERMISSION", "CID_ONSAPI_OWNER"}
    assert {group.name for group in groups_of()} == of_the_tools | of_the_cloud
    assert GroupConfig("g").to_json() == {
        "attributes": {},
        "brokerId": 0,
        "consumeBroadcastEnable": True,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeMessageOrderly": False,
        "consumeTimeoutMinute": 15,
        "groupName": "g",
        "groupRetryPolicy": {"type": "CUSTOMIZED"},
        "groupSysFlag": 0,
        "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": 16,
        "retryQueueNums": 1,
        "whichBrokerWhenConsumeSlowly": 1,
    }


def test_use_makes_a_group() -> None:
    groups = groups_of()
    group = groups.find("g")
    assert group == GroupConfig("g")
    assert groups.find("g") is group
    assert groups.unsaved
    assert groups.data_version.counter == 1


@pytest.mark.parametrize("name", ["", " ", "a/b", "a b", "../x", "ä", "x" * 121])
def test_no_group_is_made_with_a_bad_name(name: str) -> None:
    groups = groups_of()
    assert groups.find(name) is None
    assert not groups.unsaved


def test_without_auto_creation_only_system_groups_are_made() -> None:
    groups = groups_of(config=CLOSED)
    assert groups.find("g") is None
    assert groups.find("CID_RMQ_SYS_NEW") is not None
    assert groups_of(config=dataclasses.replace(CLOSED, enable_create_sys_group=False)).find("CID_RMQ_SYS_NEW") is None


def test_groups_survive_in_their_file(tmp_path: Path) -> None:
    path = tmp_path / "subscriptionGroup.json"
    groups = Groups(file_table(path), CONFIG, StillClock())
    wanted = [{"expression": "*", "expressionType": "TAG", "topic": "t", "version": 1}]
    policy = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 5}}
    groups.update(GroupConfig("g", consume_enable=False, group_retry_policy=policy, subscription_data_set=list(wanted)))
    groups.forbidden["g"] = {"t": 4}
    groups.persist()
    again = Groups(file_table(path), CONFIG, StillClock(0))
    assert again.to_json() == groups.to_json()
    assert again.forbidden == {"g": {"t": 4}}
    assert again.get("g") == groups.get("g")


def test_deleting_forgets_what_was_forbidden() -> None:
    groups = groups_of()
    groups.find("g")
    groups.forbidden["g"] = {"t": 4}
    assert groups.delete("g")
    assert not groups.delete("g")
    assert groups.forbidden == {}


def test_a_list_is_taken_whole_or_not_at_all() -> None:
    groups = groups_of()
    with pytest.raises(RequestRefused, match="unsupported key: nope"):
        groups.update_all([GroupConfig("a"), GroupConfig("b", attributes={"+nope": "1"})])
    assert "a" not in groups


def test_a_page_has_the_forbidden_topics_of_its_groups_only() -> None:
    groups = groups_of()
    groups.forbidden.update({"TOOLS_CONSUMER": {"t": 4}, "CID_ONSAPI_OWNER": {"t": 4}})
    page = groups.page_json(groups.page(len(groups) - 1, 5))
    assert list(page["subscriptionGroupTable"]) == ["TOOLS_CONSUMER"]
    assert list(page["forbiddenTable"]) == ["TOOLS_CONSUMER"]


def test_topics_are_forbidden_one_by_one() -> None:
    table = MemoryTable()
    groups = groups_of(table)
    for topic in ("t", "u"):
        groups.forbid("g", topic, True)
    assert not groups.may_read("g", "t")
    assert groups.may_read("other", "t")
    groups.forbid("g", "t", False)
    groups.forbid("g", "t", False)
    assert groups.may_read("g", "t")
    groups.persist()
    assert groups_of(table).forbidden == {"g": {"u": 4}}
    groups.forbid("g", "u", False)
    assert groups.forbidden == {}
