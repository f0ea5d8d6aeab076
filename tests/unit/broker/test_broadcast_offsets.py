"""Broadcasting clients behind proxies: they begin where they were, or where everybody was, or at the beginning."""

from __future__ import annotations

import dataclasses

import pytest

from cometmq.broker import broadcast_offsets as module
from cometmq.broker.broadcast_offsets import FROM_PROXY, BroadcastOffsets, Puller
from cometmq.broker.config import BrokerConfig
from cometmq.broker.members import Client, Members
from cometmq.broker.offsets import Offsets
from cometmq.wire.bodies.heartbeat import BROADCASTING, ConsumerData
from cometmq.wire.requests.consume import PullMessage

from .state_kit import MemoryTable, StillClock
from .test_members import Wire

CONFIG = BrokerConfig()
FIRST_OFFSET = 40
PROXY = Puller("one", True)
DIRECT = Puller("one", False)


def pull(offset: int, source: int | None = None, client: str | None = None) -> PullMessage:
    return PullMessage("g", "t", 0, offset, 32, 0, 0, 0, 0, request_source=source, proxy_froward_client_id=client)


class Kit:
    def __init__(self, config: BrokerConfig = CONFIG) -> None:
        self.clock = StillClock()
        self.members = Members(self.clock)
        self.offsets = Offsets(MemoryTable(), config, self.clock)
        self.broadcasts = BroadcastOffsets(config, self.members, self.offsets, lambda *_: FIRST_OFFSET, self.clock)


def test_only_those_who_broadcast_are_known() -> None:
    kit = Kit()
    wire = Wire()
    assert kit.broadcasts.puller(pull(0), wire) is None
    kit.members.register_consumer(Client(wire, "one"), ConsumerData("g"))
    assert kit.broadcasts.puller(pull(0), wire) is None
    kit.members.register_consumer(Client(wire, "one"), ConsumerData("g", message_model=BROADCASTING))
    assert kit.broadcasts.puller(pull(0), wire) == DIRECT
    assert kit.broadcasts.puller(pull(0), Wire()) is None
    assert kit.broadcasts.puller(pull(0, FROM_PROXY, "two"), Wire()) == Puller("two", True)
    assert kit.broadcasts.puller(pull(0, FROM_PROXY), Wire()) is None
    off = Kit(dataclasses.replace(CONFIG, enable_broadcast_offset_store=False))
    assert off.broadcasts.puller(pull(0, FROM_PROXY, "two"), Wire()) is None


def test_a_proxy_is_told_where_to_begin() -> None:
    kit = Kit()
    assert kit.broadcasts.start(pull(-1), PROXY) == FIRST_OFFSET
    assert kit.broadcasts.start(pull(3), PROXY) is None
    kit.broadcasts.pulled(pull(3), PROXY, 3)
    assert kit.broadcasts.start(pull(-1), PROXY) == 3
    kit.broadcasts.pulled(pull(1), PROXY, 1)  # a pull that came late
    assert kit.broadcasts.start(pull(-1), PROXY) == 3
    assert kit.broadcasts.start(pull(-1), Puller("two", True)) == FIRST_OFFSET


def test_a_client_that_changes_its_way_goes_on_where_it_was() -> None:
    kit = Kit()
    kit.broadcasts.pulled(pull(7), DIRECT, 7)
    assert kit.broadcasts.start(pull(2), DIRECT) is None
    assert kit.broadcasts.start(pull(2), PROXY) == 7


def test_who_comes_back_begins_with_the_least_of_all() -> None:
    kit = Kit()
    kit.broadcasts.pulled(pull(7), PROXY, 7)
    kit.broadcasts.pulled(pull(5), Puller("two", True), 5)
    kit.broadcasts.settle()
    assert kit.offsets.query("g@broadcast", "t", 0) == 5
    kit.clock.time_ms += CONFIG.broadcast_offset_expire_second * 1_000
    kit.broadcasts.settle()
    assert kit.broadcasts.start(pull(-1), PROXY) == 5
    assert kit.offsets.to_json()["groupTopicMap"] == {}
    assert kit.offsets.groups_of("t") == set()


def test_clients_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENTS_MAX", 2)
    kit = Kit()
    for name in ("one", "two", "three"):
        kit.broadcasts.pulled(pull(7), Puller(name, True), 7)
    assert kit.broadcasts.start(pull(-1), Puller("two", True)) == 7
    assert kit.broadcasts.start(pull(-1), Puller("three", True)) == FIRST_OFFSET
