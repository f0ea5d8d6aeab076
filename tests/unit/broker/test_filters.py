"""Filters of groups: how they live and die, what is kept of them, and what pulls get."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.conftest import StartBroker
from tests.unit.broker.state_kit import MemoryTable, StillClock
from tests.unit.broker.test_send_and_pull import SUSPEND, pull, pulled, send

from cometmq.broker import filters as filters_module
from cometmq.broker.config import BrokerConfig
from cometmq.broker.filters import Filters, matcher
from cometmq.errors import CorruptRecord, FilterRefused, PeerRefused, RequestRefused
from cometmq.filter.bloom import BloomFilter
from cometmq.model.subscription import SubscriptionData
from cometmq.net.channel import Channel
from cometmq.store.fs import OsFs
from cometmq.store.reader import Range, Reader, RecordFilter
from cometmq.wire.bodies.heartbeat import ConsumerData, HeartbeatData
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import decode_records, encode_record, properties_of
from cometmq.wire.requests.members import HeartBeat
from cometmq.wire.requests.pop import PopMessage

ON = {"enablePropertyFilter": "true"}


def sql92(expression: str = "a > 5", version: int = 1, topic: str = "orders") -> SubscriptionData:
    return SubscriptionData(topic, expression, sub_version=version, expression_type="SQL92")


def filters(table: MemoryTable | None = None, clock: StillClock | None = None, **keys: Any) -> Filters:
    return Filters(table or MemoryTable(), BrokerConfig(**keys), clock or StillClock())


def expression_of(found: Filters, topic: str = "orders") -> str | None:
    data = found.get(topic, "g")
    return None if data is None else data.expression


# --- the life of an expression


def test_the_newest_version_counts() -> None:
    found = filters()
    found.register("g", [sql92("a > 5", 2)])
    found.register("g", [sql92("a > 6", 2)])
    assert expression_of(found) == "a > 5"
    found.register("g", [sql92("a > 6", 3)])
    assert expression_of(found) == "a > 6"
    found.register("g", [sql92("a >", 4)])
    assert expression_of(found) is None


def test_an_expression_dies_with_its_subscription_or_its_group_and_comes_back() -> None:
    found = filters()
    found.register("g", [sql92(), sql92(topic="other")])
    found.register("g", [sql92(topic="other")])
    data, other = found.get("orders", "g"), found.get("other", "g")
    assert data and other
    assert (data.is_dead, other.is_dead) == (True, False)
    found.unregister("g")
    found.unregister("stranger")
    assert other.is_dead
    found.register("g", [sql92(), sql92(topic="other", version=9)])
    assert not data.is_dead and not other.is_dead and other.version == 9


def test_the_dead_are_forgotten_in_time() -> None:
    clock = StillClock()
    found = filters(clock=clock, filter_data_clean_time_span=1_000)
    found.register("g", [sql92()])
    clock.time_ms += 5_000
    found.clean()
    assert expression_of(found)
    found.unregister("g")
    clock.time_ms += 999
    found.clean()
    assert expression_of(found)
    clock.time_ms += 1
    found.clean()
    assert expression_of(found) is None


def test_there_is_a_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters_module, "FILTERS_MAX", 2)
    found = filters()
    found.register("g", [sql92(topic=f"t{n}") for n in range(3)])
    assert [expression_of(found, f"t{n}") is not None for n in range(3)] == [True, True, False]
    found.register("g", [sql92("a > 6", 2, "t0")])  # a change is no new one
    assert expression_of(found, "t0") == "a > 6"


def test_the_table_is_javas() -> None:
    table, clock = MemoryTable(), StillClock()
    found = filters(table, clock)
    found.register("G1", [sql92("a > 5", 7, "T1"), SubscriptionData("T2")])
    assert found.persist() and not found.persist()
    assert table.load() == {
        "filterDataByTopic": {
            "T1": {
                "groupFilterData": {
                    "G1": {
                        "bloomFilterData": {"bitNum": 112, "bitPos": [36, 12, 100]},  # as the original wrote them
                        "bornTime": clock.time_ms,
                        "clientVersion": 7,
                        "consumerGroup": "G1",
                        "dead": False,
                        "deadTime": 0,
                        "expression": "a > 5",
                        "expressionType": "SQL92",
                        "topic": "T1",
                    }
                },
                "topic": "T1",
            }
        }
    }
    clock.time_ms += 60_000
    again = filters(table, clock).get("T1", "G1")
    assert again is not None
    assert (again.expression, again.version, again.dead_ms) == ("a > 5", 7, clock.time_ms - 30_000)


def test_what_cannot_be_read_in_the_table_is_left_out() -> None:
    table = MemoryTable()
    kept = {"expression": "a >", "expressionType": "SQL92"}
    good = {**kept, "expression": "a > 1"}
    tag = {**kept, "expressionType": "TAG"}
    table.save({"filterDataByTopic": {"t": {"groupFilterData": {"bad": kept, "g": good, "tag": tag}}}})
    found = filters(table)
    assert [found.get("t", group) is not None for group in ("bad", "g", "tag")] == [False, True, False]


def test_bits_follow_the_settings() -> None:
    assert (BloomFilter().hash_count, BloomFilter().bit_count) == (3, 112)
    small = BloomFilter(1, 5)
    assert len(small.bits_of("a text of more than sixteen bytes")) == small.hash_count == 7
    assert all(0 <= bit < small.bit_count for bit in small.bits_of("x"))


# --- what a subscription wants


def record(properties: bytes, **fields: Any) -> bytes:
    given: dict[str, Any] = {
        "topic": b"orders", "queue_id": 0, "flag": 0, "queue_offset": 0, "physical_offset": 0, "sys_flag": 0,
        "born_time_ms": 1, "born_host": bytes(8), "store_time_ms": 1, "store_host": bytes(8), "body": b"a\x019\x02",
    }  # fmt: skip
    return encode_record(**{**given, **fields}, properties_data=properties)


@pytest.mark.parametrize(
    "fields",
    [{}, {"topic": b"t" * 200}, {"body": b""}, {"sys_flag": 0x30, "born_host": bytes(20), "store_host": bytes(20)}],
    ids=["v1", "v2", "no body", "v6"],
)
def test_properties_are_found_in_a_record(fields: dict[str, Any]) -> None:
    one = record(b"a\x017\x02", **fields)
    assert properties_of(one) == b"a\x017\x02"
    assert properties_of(record(b"", **fields)) == b""
    for size in range(48):
        with pytest.raises(CorruptRecord):
            properties_of(one[:size])


def test_a_matcher_asks_about_properties_only() -> None:
    wants = matcher(sql92())
    assert isinstance(wants, RecordFilter)
    assert wants(0)
    assert wants.wants(record(b"a\x017\x02"))
    assert not wants.wants(record(b"a\x013\x02"))
    assert not wants.wants(record(b""))
    assert not wants.wants(b"no record")
    tag = matcher(SubscriptionData("orders", "x", frozenset("x"), frozenset({120})))
    assert tag is not None and tag(120) and not tag(121) and not isinstance(tag, RecordFilter)
    assert matcher(SubscriptionData("orders")) is None


def test_what_cannot_be_read_is_refused() -> None:
    for wrong in (sql92("a >"), sql92(""), replace(sql92(), expression_type="XPATH")):
        with pytest.raises(FilterRefused):
            matcher(wrong)


def test_a_large_expression_looks_at_fewer_records() -> None:
    small, large = matcher(sql92("a = 1")), matcher(sql92(" OR ".join(["a = 1"] * 1_000)))
    assert isinstance(small, RecordFilter) and isinstance(large, RecordFilter)
    assert large.scan_max < 100 < small.scan_max


@pytest.mark.parametrize(
    ("group", "retry_topic"), [("g", "%RETRY%g"), ("g", "%RETRY%g+orders"), ("g_orders", "%RETRY%g_orders")]
)
def test_retried_messages_are_asked_what_their_topic_asks(group: str, retry_topic: str) -> None:
    found = filters(filter_support_retry=True)
    found.register(group, [sql92("a > 5")])
    wants = found.matcher(sql92("b = 1", topic=retry_topic))
    assert isinstance(wants, RecordFilter)
    assert wants.wants(record(b"RETRY_TOPIC\x01orders\x02a\x017\x02"))
    assert not wants.wants(record(b"RETRY_TOPIC\x01orders\x02a\x013\x02"))
    assert wants.wants(record(b"RETRY_TOPIC\x01other\x02a\x013\x02"))
    assert not wants.wants(bytes(record(b"RETRY_TOPIC\x01orders\x02a\x017\x02"))[:-4])  # damaged: passed over
    without = filters().matcher(sql92("b = 1", topic=retry_topic))
    assert isinstance(without, RecordFilter)
    assert not without.wants(record(b"RETRY_TOPIC\x01orders\x02a\x017\x02"))


def test_a_pull_without_its_filter_is_told() -> None:
    found = filters()
    with pytest.raises(RequestRefused) as refused:
        found.registered(sql92(), pull(consumer_group="g"))
    assert refused.value.response == "FILTER_DATA_NOT_EXIST"
    found.register("g", [sql92("a > 5", 4)])
    assert found.registered(sql92("old", 3), pull(consumer_group="g", sub_version=4)).sub_string == "a > 5"
    with pytest.raises(RequestRefused) as refused:
        found.registered(sql92(), pull(consumer_group="g", sub_version=5))
    assert refused.value.response == "FILTER_DATA_NOT_LATEST"


# --- on a broker


async def send_numbers(channel: Channel, count: int) -> None:
    for n in range(count):
        await channel.call(send(properties=f"a\x01{n}\x02"), b"%d" % n)


def by_sql(expression: str, **fields: Any) -> dict[str, Any]:
    return {"subscription": expression, "expression_type": "SQL92", **fields}


async def test_pulls_get_what_they_want(broker: StartBroker) -> None:
    async with broker(**ON) as (_, channel):
        await send_numbers(channel, 20)
        assert [bytes(one.body) for one in await pulled(channel, **by_sql("a BETWEEN 5 AND 7"))] == [b"5", b"6", b"7"]
        reply = await channel.exchange(pull(**by_sql("a > 100")).command())
        assert reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert reply.ext["nextBeginOffset"] == "20"


async def test_it_must_be_allowed(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await send_numbers(channel, 1)
        with pytest.raises(PeerRefused, match="does not support consumer to filter message by SQL92") as refused:
            await channel.call(pull(**by_sql("a > 1")))
        assert refused.value.code == ResponseCode.SYSTEM_ERROR


async def test_a_wrong_filter_is_refused_with_its_place(broker: StartBroker) -> None:
    async with broker(**ON) as (_, channel):
        await send_numbers(channel, 1)
        with pytest.raises(PeerRefused, match="line 1, column 4") as refused:
            await channel.call(pull(**by_sql("a >")))
        assert refused.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_a_group_is_served_by_its_registered_filter_also_after_a_restart(broker: StartBroker) -> None:
    consumer = ConsumerData("consumers", subscriptions=[sql92("a > 17", 3)])
    beat = HeartbeatData("client", [], [consumer]).encode()
    registered = {"sys_flag": 0, "sub_version": 3}
    async with broker(**ON) as (_, channel):
        await send_numbers(channel, 20)
        await channel.call(HeartBeat(), beat)
        assert [bytes(one.body) for one in await pulled(channel, **registered)] == [b"18", b"19"]
    async with broker(**ON) as (_, channel):
        with pytest.raises(PeerRefused) as refused:
            await channel.call(pull(**registered))
        assert refused.value.code == ResponseCode.SUBSCRIPTION_NOT_EXIST
        await channel.call(HeartBeat(), beat)
        assert [bytes(one.body) for one in await pulled(channel, **registered)] == [b"18", b"19"]


async def test_what_is_cold_is_searched_aside(broker: StartBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OsFs, "in_memory", lambda self, view: False)
    async with broker(**ON) as (_, channel):
        await send_numbers(channel, 40)
    async with broker(**ON) as (_, channel):  # all of it was written by an earlier process
        assert [bytes(one.body) for one in await pulled(channel, **by_sql("a = 30 OR a = 31"))] == [b"30", b"31"]
        assert await offsets_seen(channel, "a > 9") == list(range(10, 40))
        await send_numbers(channel, 5)
        assert await offsets_seen(channel, "a > 3") == [*range(4, 40), 44]
        reply = await channel.exchange(pull(**by_sql("a = 1000")).command())
        assert reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        assert int(reply.ext["nextBeginOffset"]) >= 40
        ended = await channel.exchange(pull(45, **by_sql("a = 1000")).command())
        assert ended.code == ResponseCode.PULL_NOT_FOUND


async def test_a_search_that_begins_in_memory_is_not_led_to_the_disk(
    broker: StartBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk, slices, searched = re.compile(rb"a\x01[23]\d\x02"), Reader.slices, list[int]()

    def only_warm(self: Reader, ranges: Sequence[Range]) -> list[memoryview]:
        found = slices(self, ranges)
        assert not any(map(on_disk.search, found)), "the loop would wait for a disk"
        searched.append(len(found))
        return found

    async with broker(**ON) as (_, channel):
        await send_numbers(channel, 40)
    monkeypatch.setattr(OsFs, "in_memory", lambda self, view: not on_disk.search(view))
    monkeypatch.setattr(Reader, "slices", only_warm)
    async with broker(**ON) as (_, channel):
        found = await pulled(channel, max_msg_nums=8, **by_sql("a > 21"))
        assert [bytes(one.body) for one in found] == [b"22", b"23"]
        assert sum(searched) == 16  # what is in memory needs no thread


async def offsets_seen(channel: Channel, expression: str) -> list[int]:
    """Pull until the end, as a consumer does."""
    seen: list[int] = []
    offset = 0
    while True:
        reply = await channel.exchange(pull(offset, **by_sql(expression)).command())
        if reply.code == ResponseCode.PULL_NOT_FOUND:
            return seen
        if reply.code == ResponseCode.SUCCESS:
            seen += [one.queue_offset for one in decode_records(reply.body)]
        assert int(reply.ext["nextBeginOffset"]) > offset
        offset = int(reply.ext["nextBeginOffset"])


async def test_pops_are_filtered_whether_allowed_or_not(broker: StartBroker) -> None:
    async with broker() as (_, channel):
        await send_numbers(channel, 10)
        pop = PopMessage("consumers", "orders", 0, 32, 60_000, 0, 0, 0, exp_type="SQL92", exp="a > 7")
        found = decode_records((await channel.call(pop)).body)
        assert [bytes(one.body) for one in found] == [b"8", b"9"]
        with pytest.raises(PeerRefused, match="line 1, column 4") as refused:
            await channel.call(replace(pop, exp="a >"))
        assert refused.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_a_waiting_pull_wakes_for_a_match_only(broker: StartBroker) -> None:
    async with broker(**ON) as (_, channel):
        await send_numbers(channel, 1)
        fields = by_sql("a = 'yes'", sys_flag=4 | SUSPEND)
        waiting = asyncio.ensure_future(channel.call(pull(1, **fields)))
        for value in ("no", "5", "yes"):
            assert not waiting.done()
            await channel.call(send(properties=f"a\x01{value}\x02"), value.encode())
        assert b"yes" in bytes((await waiting).body)
