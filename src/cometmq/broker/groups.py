"""The consumer groups of this broker: `subscriptionGroup.json`, those that always exist, and those made on first use.

Changes mark the table; `persist` saves it (`broker.saved` says who calls it when).

    forbidden   group → topic → bits; bit 2 (READ) set means that the group may not read the topic

Mirrors: SubscriptionGroupManager.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any, Final

from cometmq.broker.attributes import GROUP_ATTRIBUTES, alter
from cometmq.broker.config import BrokerConfig
from cometmq.broker.replicated import read_table
from cometmq.broker.saved import Saved, Table
from cometmq.clock import Clock
from cometmq.errors import RequestRefused
from cometmq.model import names
from cometmq.model.data_version import DataVersion
from cometmq.model.group import GroupConfig

log = logging.getLogger("cometmq.broker")

READ_FORBIDDEN: Final = 1 << 2
FORBIDDEN_TOPICS_MAX: Final = 10_000
FORBIDDEN_GROUPS_MAX: Final = 10_000

SYSTEM_GROUPS: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)


class Groups(Saved):
    """Every group of this broker, by name."""

    def __init__(self, table: Table, config: BrokerConfig, clock: Clock) -> None:
        super().__init__(table, self.to_json)
        self._config = config
        self._clock = clock
        self.data_version = DataVersion(timestamp_ms=clock.now_ms())
        self.forbidden: dict[str, dict[str, int]] = {}
        self._groups = {name: GroupConfig(name) for name in SYSTEM_GROUPS}
        self.load(self._read)

    def _read(self, saved: dict[str, Any]) -> None:
        for name, fields in (saved.get("subscriptionGroupTable") or {}).items():
            self._groups[name] = group = GroupConfig.from_json(fields)
            group.name = group.name or name
        self.forbidden.update(saved.get("forbiddenTable") or {})
        if "dataVersion" in saved:
            self.data_version = DataVersion.from_json(saved["dataVersion"])

    def to_json(self) -> dict[str, Any]:
        """The whole table as `subscriptionGroup.json` and replies hold it."""
        return self.page_json(self) | {"forbiddenTable": self.forbidden}

    def page_json(self, groups: Iterable[GroupConfig]) -> dict[str, Any]:
        """Some groups, in the shape of the whole table."""
        chosen = {group.name: group.to_json() for group in groups}
        return {
            "dataVersion": self.data_version.to_json(),
            "forbiddenTable": {name: topics for name, topics in self.forbidden.items() if name in chosen},
            "subscriptionGroupTable": chosen,
        }

    # --- looking up

    def get(self, name: str) -> GroupConfig | None:
        return self._groups.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._groups

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[GroupConfig]:
        return iter(self._groups.values())

    def may_read(self, name: str, topic: str) -> bool:
        """Has nobody forbidden the group to read the topic?"""
        return not self.forbidden or not self.forbidden.get(name, {}).get(topic, 0) & READ_FORBIDDEN

    def page(self, start: int, count: int) -> list[GroupConfig]:
        """`count` groups from the `start`-th on, in the order of their names."""
        chosen = sorted(self._groups)[start : start + count]
        return [self._groups[name] for name in chosen]

    # --- changing

    def find(self, name: str) -> GroupConfig | None:
        """The group, made now if groups may be made by using them; None if not, or if the name is not allowed."""
        group = self._groups.get(name)
        if group is not None:
            return group
        system = self._config.enable_create_sys_group and name.startswith(names.SYSTEM_GROUP_PREFIX)
        if not (self._config.auto_create_subscription_group or system) or names.group_fault(name) is not None:
            return None
        log.info("group %s was made by its first use", name)
        return self._put(GroupConfig(name))

    def update(self, group: GroupConfig) -> None:
        """Take what an admin gave, its attributes being signed changes."""
        self.update_all([group])

    def update_all(self, groups: Iterable[GroupConfig]) -> None:
        """Take several, or none if one of them cannot be taken."""
        altered = []
        for group in groups:
            old = self._groups.get(group.name)
            group.attributes = alter(GROUP_ATTRIBUTES, old.attributes if old else None, group.attributes)
            altered.append(group)
        for group in altered:
            self._put(group)

    def forbid(self, name: str, topic: str, forbidden: bool) -> None:
        """Let a group read a topic no more, or again."""
        topics = self.forbidden.get(name, {})
        bits = topics.get(topic, 0)
        wanted = bits | READ_FORBIDDEN if forbidden else bits & ~READ_FORBIDDEN
        if wanted == bits:
            return
        if wanted:
            if len(topics) >= FORBIDDEN_TOPICS_MAX or len(self.forbidden) >= FORBIDDEN_GROUPS_MAX:
                raise RequestRefused("SYSTEM_ERROR", f"no more than {FORBIDDEN_TOPICS_MAX} topics can be forbidden")
            self.forbidden.setdefault(name, {})[topic] = wanted
        else:
            del topics[topic]
            if not topics:
                del self.forbidden[name]
        self._changed()

    def follow(self, body: bytes) -> None:
        """Have the groups that the master has."""
        rows, version = read_table(body, "subscriptionGroupTable")
        if version is None or version == self.data_version:
            return
        groups = [GroupConfig.from_json(fields) for fields in rows.values()]
        self._groups = {group.name: group for group in groups if group.name in rows}
        self.data_version = version
        self.mark()
        self.persist()

    def delete(self, name: str) -> bool:
        """Forget a group; its offsets are the business of `Offsets`."""
        self.forbidden.pop(name, None)
        if self._groups.pop(name, None) is None:
            return False
        self._changed()
        return True

    def _put(self, group: GroupConfig) -> GroupConfig:
        self._groups[group.name] = group
        self._changed()
        return group

    def _changed(self) -> None:
        self.data_version.advance(self._clock.now_ms())
        self.mark()
