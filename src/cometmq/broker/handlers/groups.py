"""Groups by request: create, change, list, look up, delete.

A change is saved before it is answered. Mirrors: AdminBrokerProcessor.
"""

from __future__ import annotations

from cometmq.broker.config import BrokerConfig
from cometmq.broker.groups import Groups
from cometmq.broker.handlers.paging import page_asked_for
from cometmq.broker.offsets import Offsets
from cometmq.errors import RequestRefused
from cometmq.model import names
from cometmq.model.group import GroupConfig
from cometmq.net.routes import DONE, LATER, Call, Later, handles
from cometmq.wire import fastjson
from cometmq.wire.bodies.groups import decode_group, decode_groups
from cometmq.wire.requests.admin import (
    AllGroupConfigReply,
    CreateGroup,
    CreateGroupList,
    DeleteGroup,
    GetAllGroupConfig,
    GetGroupConfig,
    UpdateGroupForbidden,
)
from cometmq.wire.schema import Header


class GroupHandlers:
    """Answers admin tools and slaves that copy the table."""

    def __init__(self, config: BrokerConfig, groups: Groups, offsets: Offsets) -> None:
        self._config = config
        self._groups = groups
        self._offsets = offsets

    @handles(CreateGroup)
    def create(self, request: CreateGroup, call: Call) -> Header:
        group = decode_group(call.body)
        return DONE if group is None else self._update([group])

    @handles(CreateGroupList)
    def create_list(self, request: CreateGroupList, call: Call) -> Header:
        return self._update(decode_groups(call.body))

    def _update(self, groups: list[GroupConfig]) -> Header:
        for group in groups:
            fault = names.group_fault(group.name)
            if fault is not None:
                raise RequestRefused("INVALID_PARAMETER", fault)
        self._groups.update_all(groups)
        self._groups.persist()
        return DONE

    @handles(GetAllGroupConfig)
    def get_all(self, request: GetAllGroupConfig, call: Call) -> Later:
        version = self._groups.data_version
        page = page_asked_for(self._config, version, request.data_version, request.group_seq, request.max_group_num)
        table = self._groups.to_json() if page is None else self._groups.page_json(self._groups.page(*page))
        call.reply(AllGroupConfigReply(len(self._groups)), body=fastjson.dumps(table))
        return LATER

    @handles(GetGroupConfig)
    def get(self, request: GetGroupConfig, call: Call) -> Later:
        """Looking a group up makes it where groups may be made by using them, as in Java."""
        group = self._groups.find(request.group)
        if group is None:
            raise RequestRefused("SUBSCRIPTION_GROUP_NOT_EXIST", "No group in this broker")
        call.reply(body=fastjson.dumps(group.to_json()))
        return LATER

    @handles(UpdateGroupForbidden)
    def forbid(self, request: UpdateGroupForbidden, call: Call) -> Later:
        """Set or only show whether a group may read a topic."""
        group, topic = request.group, request.topic
        if request.readable is not None:
            self._groups.forbid(group, topic, not request.readable)
            self._groups.persist()
        shown = {"group": group, "readable": self._groups.may_read(group, topic), "topic": topic}
        call.reply(remark="", body=fastjson.dumps(shown))
        return LATER

    @handles(DeleteGroup)
    def delete(self, request: DeleteGroup, call: Call) -> Header:
        self._groups.delete(request.group_name)
        self._groups.persist()
        if request.clean_offset:
            self._offsets.remove_group(request.group_name)
            self._offsets.persist()
        return DONE
