"""Bodies that brokers and tools send: round trips, Java's own bytes, cuts and garbage."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import ProtocolError
from cometmq.model.data_version import DataVersion
from cometmq.model.route import BrokerData, QueueData, QueueMapping, TopicRoute
from cometmq.model.topic import TopicConfig
from cometmq.wire.bodies import registration as module
from cometmq.wire.bodies.cluster import (
    decode_cluster_info,
    decode_member_group,
    encode_cluster_info,
    encode_member_group,
)
from cometmq.wire.bodies.kv import decode_kv_table, encode_kv_table
from cometmq.wire.bodies.registration import Registration, decode_registration, encode_registration
from cometmq.wire.bodies.route import decode_route, encode_route
from cometmq.wire.bodies.topics import decode_topic_list, encode_topic_list

MAPPING = QueueMapping("S", "a", total_queues=2, epoch=7, current_ids={0: 3, 1: 4})
WHOLE = Registration(
    DataVersion(1, 2, 3),
    {"T": TopicConfig("T", 4, 8, 6), "S": TopicConfig("S", 2, 2, 4)},
    ["127.0.0.1:7"],
    {"S": MAPPING},
)
ROUTE = TopicRoute(
    [QueueData("a", 4, 8, 6, 1)],
    [BrokerData("C", "a", {0: "h:1", 5: "h:2"}, "zone", True)],
    {"h:1": ["f:1"]},
    "a:4",
    {"a": MAPPING},
)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_registration_survives(compressed: bool) -> None:
    data = encode_registration(WHOLE, compressed=compressed)
    assert decode_registration(data, compressed=compressed) == WHOLE


def test_a_compressed_registration_is_known_by_its_first_byte() -> None:
    assert decode_registration(encode_registration(WHOLE, compressed=True), compressed=False) == WHOLE


def test_the_compressed_form_of_an_old_broker_ends_without_mappings() -> None:
    data = encode_registration(WHOLE, compressed=True)
    assert decode_registration(data, compressed=True, version=412).queue_mappings == {}


def test_a_very_old_broker_sends_its_topics_alone() -> None:
    read = decode_registration(b'{"topicConfigTable":{"T":{"topicName":"T","readQueueNums":3}}}', version=36)
    assert read.topics is not None and read.topics["T"].read_queue_nums == 3
    assert read.filter_servers is None


@pytest.mark.parametrize(
    ("data", "topics"),
    [
        (b"", {}),
        (b"{}", {}),
        (b'{"topicConfigSerializeWrapper":null}', None),
        (b'{"topicConfigSerializeWrapper":{"topicConfigTable":null}}', None),
    ],
)
def test_what_java_survives(data: bytes, topics: Any) -> None:
    assert decode_registration(data).topics == topics


@pytest.mark.parametrize(
    "data",
    [
        b"null",
        b"[]",
        b"{",
        b"\xff",
        b'{"filterServerList":3}',
        b'{"topicConfigSerializeWrapper":[]}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":1}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":"x"}}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":99999999999}}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":1e99}}}}',
        b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"order":"maybe"}}}}',
        b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":"many"}}}',
        b'{"topicConfigSerializeWrapper":{"topicQueueMappingInfoMap":{"T":{"currIdMap":{"x":1}}}}}',
    ],
)
def test_garbage_is_refused_in_words(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_registration(data)


def test_a_compressed_registration_cut_anywhere_is_refused() -> None:
    plain = zlib.decompress(encode_registration(WHOLE, compressed=True))
    for end in range(len(plain)):
        with pytest.raises(ProtocolError):
            decode_registration(zlib.compress(plain[:end]), compressed=True)


def test_a_topic_line_that_lies_is_refused() -> None:
    def sized(data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + data

    for line in (b"", b"T", b"T 1 2", b"T a b c d", b"T 1 2 99999999999 SINGLE_TAG", b"\xff 1 2 6 X"):
        data = sized(b"{}") + (1).to_bytes(4, "big") + sized(line) + sized(b"[]") + bytes(4)
        with pytest.raises(ProtocolError):
            decode_registration(zlib.compress(data), compressed=True)


def test_a_registration_that_inflates_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INFLATED_SIZE_MAX", 1000)
    with pytest.raises(ProtocolError, match="more than 1000 bytes"):
        decode_registration(zlib.compress(bytes(100_000)), compressed=True)


@given(st.binary(max_size=200), st.booleans(), st.sampled_from([36, 300, 513]))
def test_random_bytes_raise_nothing_else(data: bytes, compressed: bool, version: int) -> None:
    for wrapped in (data, zlib.compress(data)):
        try:
            decode_registration(wrapped, compressed=compressed, version=version)
        except ProtocolError:
            continue


@pytest.mark.parametrize("strict", [True, False])
def test_a_route_survives_in_both_forms(strict: bool) -> None:
    data = encode_route(ROUTE, strict=strict)
    assert decode_route(data) == ROUTE
    assert (b'{"0":"h:1"' if strict else b'{0:"h:1"') in data


@pytest.mark.parametrize("data", [b"[]", b'{"queueDatas":{"a":1}}', b'{"brokerDatas":[{"brokerAddrs":{"x":"h:1"}}]}'])
def test_a_broken_route_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_route(data)


def test_the_smaller_bodies_survive() -> None:
    broker = BrokerData("C", "a", {0: "h:1"})
    info = decode_cluster_info(encode_cluster_info({"a": broker}, {"C": ["a"]}))
    assert (info.brokers, info.clusters) == ({"a": broker}, {"C": ["a"]})
    assert decode_member_group(encode_member_group("C", "a", {0: "h:1"})) == broker
    assert decode_member_group(encode_member_group(None, None, {})) == BrokerData("", "")
    assert decode_topic_list(encode_topic_list(["T"], "h:1")) == ["T"]
    assert decode_kv_table(encode_kv_table({"k": "v"})) == {"k": "v"}
