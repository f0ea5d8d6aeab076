"""The body of a route answer, and of a topic registered by hand.

Names of fields and their order are Java's; what is None is left out.

Mirrors: TopicRouteData.
"""

from __future__ import annotations

from typing import Any

from cometmq.model.route import SCOPE_GLOBAL, BrokerData, QueueData, QueueMapping, TopicRoute
from cometmq.wire import fastjson
from cometmq.wire.bodies.reading import as_list, as_object, as_whole, flag, text, whole


def encode_route(route: TopicRoute, *, strict: bool = True) -> bytes:
    """Write a route; `strict=False` for clients that read only fastjson's dialect."""
    fields: dict[str, Any] = {
        "brokerDatas": [broker_to_json(broker) for broker in route.brokers],
        "filterServerTable": route.filter_servers,
    }
    if route.order_conf is not None:
        fields["orderTopicConf"] = route.order_conf
    fields["queueDatas"] = [queue_to_json(queue) for queue in route.queues]
    if route.queue_mappings is not None:
        fields["topicQueueMappingByBroker"] = {
            name: mapping_to_json(mapping) for name, mapping in route.queue_mappings.items()
        }
    return fastjson.dumps(fields, strict=strict)


def decode_route(data: bytes | memoryview) -> TopicRoute:
    """Read a route in either form."""
    fields = as_object(fastjson.loads(data), "the route")
    filters = as_object(fields.get("filterServerTable") or {}, "filterServerTable")
    mappings = fields.get("topicQueueMappingByBroker")
    return TopicRoute(
        queues=[queue_from_json(item) for item in as_list(fields.get("queueDatas") or [], "queueDatas")],
        brokers=[broker_from_json(item) for item in as_list(fields.get("brokerDatas") or [], "brokerDatas")],
        filter_servers={addr: [str(server) for server in as_list(list_, addr)] for addr, list_ in filters.items()},
        order_conf=text(fields, "orderTopicConf"),
        queue_mappings=None if mappings is None else mappings_from_json(mappings),
    )


def queue_to_json(queue: QueueData) -> dict[str, Any]:
    return {
        "brokerName": queue.broker_name,
        "perm": queue.perm,
        "readQueueNums": queue.read_queue_nums,
        "topicSysFlag": queue.topic_sys_flag,
        "writeQueueNums": queue.write_queue_nums,
    }


def queue_from_json(value: Any) -> QueueData:
    fields = as_object(value, "an item of queueDatas")
    return QueueData(
        broker_name=text(fields, "brokerName") or "",
        read_queue_nums=whole(fields, "readQueueNums"),
        write_queue_nums=whole(fields, "writeQueueNums"),
        perm=whole(fields, "perm"),
        topic_sys_flag=whole(fields, "topicSysFlag"),
    )


def broker_to_json(broker: BrokerData) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "brokerAddrs": broker.addrs,
        "brokerName": broker.broker_name,
        "cluster": broker.cluster,
        "enableActingMaster": broker.enable_acting_master,
    }
    if broker.zone_name is not None:
        fields["zoneName"] = broker.zone_name
    return fields


def broker_from_json(value: Any) -> BrokerData:
    fields = as_object(value, "a broker")
    return BrokerData(
        cluster=text(fields, "cluster") or "",
        broker_name=text(fields, "brokerName") or "",
        addrs=addrs_from_json(fields.get("brokerAddrs") or {}),
        zone_name=text(fields, "zoneName"),
        enable_acting_master=flag(fields, "enableActingMaster"),
    )


def addrs_from_json(value: Any) -> dict[int, str]:
    """Broker id → address."""
    fields = as_object(value, "brokerAddrs")
    return {as_whole(key, "a broker id", bits=64): text(fields, key) or "" for key in fields}


def mapping_to_json(mapping: QueueMapping) -> dict[str, Any]:
    return {
        "bname": mapping.broker_name,
        "currIdMap": mapping.current_ids,
        "dirty": mapping.dirty,
        "epoch": mapping.epoch,
        "scope": mapping.scope,
        "topic": mapping.topic,
        "totalQueues": mapping.total_queues,
    }


def mapping_from_json(value: Any) -> QueueMapping:
    fields = as_object(value, "a queue mapping")
    ids = as_object(fields.get("currIdMap") or {}, "currIdMap")
    return QueueMapping(
        topic=text(fields, "topic") or "",
        broker_name=text(fields, "bname") or "",
        total_queues=whole(fields, "totalQueues"),
        epoch=whole(fields, "epoch", bits=64),
        scope=text(fields, "scope") or SCOPE_GLOBAL,
        dirty=flag(fields, "dirty"),
        current_ids={as_whole(key, "a logical queue id"): whole(ids, key) for key in ids},
    )


def mappings_from_json(value: Any) -> dict[str, QueueMapping]:
    """Queue mappings by whatever they are keyed with: the topic in registrations, the broker name in routes."""
    fields = as_object(value, "the queue mappings")
    return {key: mapping_from_json(item) for key, item in fields.items()}
