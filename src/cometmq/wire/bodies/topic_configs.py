"""Topic configurations, one or many.

Invariant: what is read here can be saved: numbers fit Java's types.

Mirrors: TopicConfigAndMappingSerializeWrapper, CreateTopicListRequestBody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from cometmq.errors import ProtocolError
from cometmq.model.data_version import DataVersion
from cometmq.model.topic import TopicConfig
from cometmq.wire import fastjson
from cometmq.wire.bodies.reading import as_list, as_object, as_whole, choice, flag

FILTER_TYPES: Final = ("SINGLE_TAG", "MULTI_TAG")


def encode_all_topics(topics: Iterable[TopicConfig], version: DataVersion, mapping_version: DataVersion) -> bytes:
    """The answer to GET_ALL_TOPIC_CONFIG; static topics, of which there are none, have their places in it."""
    return fastjson.dumps(
        {
            "dataVersion": version.to_json(),
            "mappingDataVersion": mapping_version.to_json(),
            "topicConfigTable": {topic.name: topic.to_json() for topic in topics},
            "topicQueueMappingDetailMap": {},
            "topicQueueMappingInfoMap": {},
        }
    )


def decode_topic_configs(body: bytes | memoryview) -> list[TopicConfig]:
    """`{"topicConfigList":[…]}`"""
    if not body:
        raise ProtocolError("the body is empty: topicConfigList is expected")
    fields = as_object(fastjson.loads(body), "the body")
    return [decode_topic_config(item) for item in as_list(fields.get("topicConfigList"), "topicConfigList")]


def decode_topic_config(value: Any) -> TopicConfig:
    """One configuration, as Java reads it: a null number is 0, a type that it does not know is none."""
    fields = dict(as_object(value, "a topic configuration"))
    for key in ("readQueueNums", "writeQueueNums", "perm", "topicSysFlag"):
        if key in fields:
            fields[key] = 0 if fields[key] is None else as_whole(fields[key], key)
    fields["order"] = flag(fields, "order")
    choice(fields, "topicFilterType")
    attributes = fields.get("attributes")
    if attributes is not None:
        as_object(attributes, "attributes")
    topic = TopicConfig.from_json(fields)
    if topic.filter_type not in FILTER_TYPES:
        topic.filter_type = FILTER_TYPES[0]
    topic.attributes = {str(key): str(item) for key, item in topic.attributes.items()}
    return topic
