"""What a broker tells a NameServer about itself, in its three forms.

    JSON         {"filterServerList":[…],"topicConfigSerializeWrapper":{"dataVersion":{…},"topicConfigTable":{…},…}}
    old JSON     the inner wrapper alone; brokers before V3_0_11
    compressed   zlib of
                 size 4 · data version (JSON)
                 count 4 · count × (size 4 · topic: "name readQueues writeQueues perm filterType attributes")
                 size 4 · filter servers (JSON)
                 count 4 · count × (size 4 · queue mapping (JSON))      only brokers from V5_0_0 on

Invariant: what cannot be read raises `ProtocolError`, and inflating stops at `INFLATED_SIZE_MAX`.

Mirrors: RegisterBrokerBody, TopicConfigAndMappingSerializeWrapper.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from cometmq.errors import ProtocolError
from cometmq.model.data_version import DataVersion
from cometmq.model.route import QueueMapping
from cometmq.model.topic import TopicConfig
from cometmq.wire import fastjson
from cometmq.wire.bodies.reading import as_list, as_object, choice, flag, text, whole
from cometmq.wire.bodies.route import mapping_from_json, mapping_to_json, mappings_from_json
from cometmq.wire.codes import VERSION, VERSION_STATIC_TOPICS, VERSION_WHOLE_REGISTRATION

INFLATED_SIZE_MAX: Final = 128 * 1024 * 1024
_ZLIB_MARK: Final = 0x78


@dataclass(slots=True)
class Registration:
    """The topics of one broker, and the version of its table. `topics` is None where the body had no table."""

    data_version: DataVersion
    topics: dict[str, TopicConfig] | None
    filter_servers: list[str] | None = field(default_factory=list)
    queue_mappings: dict[str, QueueMapping] = field(default_factory=dict)


def encode_registration(registration: Registration, *, compressed: bool = False) -> bytes:
    """Write the JSON or the compressed form."""
    topics = registration.topics or {}
    if compressed:
        return zlib.compress(b"".join(_pieces(registration, topics)), 9)
    mappings = {topic: mapping_to_json(mapping) for topic, mapping in registration.queue_mappings.items()}
    wrapper = {
        "dataVersion": registration.data_version.to_json(),
        "mappingDataVersion": DataVersion().to_json(),
        "topicConfigTable": {name: topic.to_json() for name, topic in topics.items()},
        "topicQueueMappingDetailMap": {},
        "topicQueueMappingInfoMap": mappings,
    }
    body = {"filterServerList": registration.filter_servers or [], "topicConfigSerializeWrapper": wrapper}
    return fastjson.dumps(body, strict=False)


def _pieces(registration: Registration, topics: dict[str, TopicConfig]) -> Iterable[bytes]:
    yield from _sized(fastjson.dumps(registration.data_version.to_json()))
    yield len(topics).to_bytes(4, "big")
    for topic in topics.values():
        yield from _sized(_topic_line(topic).encode())
    yield from _sized(fastjson.dumps(registration.filter_servers or []))
    yield len(registration.queue_mappings).to_bytes(4, "big")
    for mapping in registration.queue_mappings.values():
        yield from _sized(fastjson.dumps(mapping_to_json(mapping), strict=False))


def _sized(data: bytes) -> tuple[bytes, bytes]:
    return len(data).to_bytes(4, "big"), data


def _topic_line(topic: TopicConfig) -> str:
    attributes = fastjson.dumps(topic.attributes).decode()
    queues = f"{topic.read_queue_nums} {topic.write_queue_nums}"
    return f"{topic.name} {queues} {topic.perm} {topic.filter_type} {attributes}"


def decode_registration(
    data: bytes | memoryview, *, compressed: bool = False, version: int = VERSION, now_ms: int = 0
) -> Registration:
    """Read the form that the header announces; `now_ms` is the time of a table that tells no version."""
    if not data:
        return Registration(DataVersion(), {})
    if version < VERSION_WHOLE_REGISTRATION:
        return _from_wrapper(fastjson.loads(data), None, now_ms)
    if compressed or data[0] == _ZLIB_MARK:
        # A 5.5.0 broker with compressedRegister=true compresses and says that it did not; JSON never begins so.
        return _from_compressed(data, version)
    fields = as_object(fastjson.loads(data), "the registration")
    filters = fields.get("filterServerList", [])
    if isinstance(filters, str):  # one, as the original takes it
        filters = [filters]
    filter_servers = None if filters is None else [str(item) for item in as_list(filters, "filterServerList")]
    return _from_wrapper(fields.get("topicConfigSerializeWrapper", {}), filter_servers, now_ms)


def _from_wrapper(value: Any, filter_servers: list[str] | None, now_ms: int) -> Registration:
    if value is None:
        return Registration(DataVersion(), None, filter_servers)
    wrapper = as_object(value, "topicConfigSerializeWrapper")
    version = wrapper.get("dataVersion")
    table = wrapper.get("topicConfigTable", {})
    return Registration(
        data_version=DataVersion(timestamp_ms=now_ms) if version is None else _data_version(version),
        topics=None if table is None else _topics(table),
        filter_servers=filter_servers,
        queue_mappings=mappings_from_json(wrapper.get("topicQueueMappingInfoMap") or {}),
    )


def _data_version(value: Any) -> DataVersion:
    fields = as_object(value, "dataVersion")
    return DataVersion(
        state_version=whole(fields, "stateVersion", bits=64),
        timestamp_ms=whole(fields, "timestamp", bits=64),
        counter=whole(fields, "counter", bits=64),
    )


def decode_data_version(data: bytes | memoryview) -> DataVersion:
    """The body of a data version query."""
    return _data_version(fastjson.loads(data))


def _topics(value: Any) -> dict[str, TopicConfig]:
    table = as_object(value, "topicConfigTable")
    return {key: _topic(item, key) for key, item in table.items()}


def _topic(value: Any, key: str) -> TopicConfig:
    fields = as_object(value, f"the topic {key}")
    topic = TopicConfig(text(fields, "topicName") or key)
    topic.read_queue_nums = whole(fields, "readQueueNums", topic.read_queue_nums)
    topic.write_queue_nums = whole(fields, "writeQueueNums", topic.write_queue_nums)
    topic.perm = whole(fields, "perm", topic.perm)
    topic.sys_flag = whole(fields, "topicSysFlag")
    _check_unused(fields)
    return topic


def _check_unused(fields: dict[str, Any]) -> None:
    """Refuse what routes do not need but the original could not read either."""
    flag(fields, "order")
    choice(fields, "topicFilterType")
    if fields.get("attributes") is not None:
        as_object(fields["attributes"], "attributes")


def _from_compressed(data: bytes | memoryview, version: int) -> Registration:
    pieces = _Pieces(_inflate(data))
    data_version = _data_version(fastjson.loads(pieces.sized()))
    topics = {}
    for _ in range(pieces.count()):
        topic = _read_topic_line(pieces.sized())
        topics[topic.name] = topic
    filter_servers = [str(item) for item in as_list(fastjson.loads(pieces.sized()), "the filter servers")]
    mappings = {}
    if version >= VERSION_STATIC_TOPICS:
        for _ in range(pieces.count()):
            mapping = mapping_from_json(fastjson.loads(pieces.sized()))
            mappings[mapping.topic] = mapping
    return Registration(data_version, topics, filter_servers, mappings)


def _inflate(data: bytes | memoryview) -> bytes:
    inflater = zlib.decompressobj()
    try:
        plain = inflater.decompress(data, INFLATED_SIZE_MAX)
    except zlib.error as broken:
        raise ProtocolError(f"the compressed registration does not inflate: {broken}") from None
    if inflater.unconsumed_tail:
        raise ProtocolError(f"the compressed registration inflates to more than {INFLATED_SIZE_MAX} bytes")
    return plain


def _read_topic_line(data: bytes) -> TopicConfig:
    try:
        name, reads, writes, perm, *_ = data.decode().split(" ")
        numbers = {"reads": reads, "writes": writes, "perm": perm}
    except (UnicodeDecodeError, ValueError):
        raise ProtocolError(f"{data[:80]!r} is not a topic: name, queues, permission and type are expected") from None
    return TopicConfig(name, whole(numbers, "reads"), whole(numbers, "writes"), whole(numbers, "perm"))


class _Pieces:
    """Reads counts and sized pieces, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def count(self) -> int:
        return int.from_bytes(self._take(4), "big")

    def sized(self) -> bytes:
        return self._take(self.count())

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise ProtocolError(
                f"the compressed registration ends at byte {len(self._data)}, {size} more are announced at {self._at}"
            )
        self._at += size
        return self._data[self._at - size : self._at]
