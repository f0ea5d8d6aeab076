"""What brokers, clients and tools ask of a NameServer.

Most fields have defaults because Java answers without them too; only what it fails on must be there.

Mirrors: the headers of org.apache.rocketmq.remoting.protocol.header.namesrv.
"""

from __future__ import annotations

from cometmq.wire.codes import RequestCode
from cometmq.wire.schema import Header, Int32, named, request


class RegisterBrokerReply(Header):
    ha_server_addr: str | None = None
    master_addr: str | None = None


@request(RequestCode.REGISTER_BROKER, reply=RegisterBrokerReply)
class RegisterBroker(Header):
    """Java answers success where only the id must be there; such a registration has no effect."""

    broker_id: int
    broker_name: str | None = None
    broker_addr: str | None = None
    cluster_name: str | None = None
    ha_server_addr: str | None = None
    heartbeat_timeout_millis: int | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = named("bodyCrc32", default=0)


@request(RequestCode.UNREGISTER_BROKER)
class UnregisterBroker(Header):
    """Java queues it whatever it holds and answers success; without one of these it has no effect."""

    broker_name: str | None = None
    broker_addr: str | None = None
    cluster_name: str | None = None
    broker_id: int | None = None


@request(RequestCode.BROKER_HEARTBEAT)
class BrokerHeartbeat(Header):
    cluster_name: str
    broker_addr: str
    broker_name: str | None = None
    broker_id: int | None = None
    epoch: Int32 | None = None
    max_offset: int | None = None
    confirm_offset: int | None = None
    heartbeat_timeout_mills: int | None = None
    election_priority: Int32 | None = None


class QueryDataVersionReply(Header):
    changed: bool


@request(RequestCode.QUERY_DATA_VERSION, reply=QueryDataVersionReply)
class QueryDataVersion(Header):
    broker_addr: str
    cluster_name: str
    broker_name: str | None = None
    broker_id: int | None = None


@request(RequestCode.GET_ROUTEINFO_BY_TOPIC)
class GetRouteInfo(Header):
    topic: str | None = None
    accept_standard_json_only: bool = False


@request(RequestCode.GET_BROKER_CLUSTER_INFO)
class GetClusterInfo(Header):
    pass


@request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
class GetAllTopicList(Header):
    pass


@request(RequestCode.GET_TOPICS_BY_CLUSTER)
class GetTopicsByCluster(Header):
    cluster: str | None = None


@request(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS)
class GetSystemTopicList(Header):
    pass


@request(RequestCode.GET_UNIT_TOPIC_LIST)
class GetUnitTopicList(Header):
    pass


@request(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST)
class GetHasUnitSubTopicList(Header):
    pass


@request(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST)
class GetHasUnitSubUnunitTopicList(Header):
    pass


@request(RequestCode.DELETE_TOPIC_IN_NAMESRV)
class DeleteTopicInNamesrv(Header):
    topic: str | None = None
    cluster_name: str | None = None


@request(RequestCode.REGISTER_TOPIC_IN_NAMESRV)
class RegisterTopicInNamesrv(Header):
    """The body is a route, of which the queues count."""

    topic: str | None = None


@request(RequestCode.PUT_KV_CONFIG)
class PutKvConfig(Header):
    namespace: str | None = None
    key: str | None = None
    value: str | None = None


class KvConfigReply(Header):
    value: str | None = None


@request(RequestCode.GET_KV_CONFIG, reply=KvConfigReply)
class GetKvConfig(Header):
    namespace: str | None = None
    key: str | None = None


@request(RequestCode.DELETE_KV_CONFIG)
class DeleteKvConfig(Header):
    namespace: str | None = None
    key: str | None = None


@request(RequestCode.GET_KVLIST_BY_NAMESPACE)
class GetKvListByNamespace(Header):
    namespace: str | None = None


class WipeWritePermReply(Header):
    wipe_topic_count: Int32


@request(RequestCode.WIPE_WRITE_PERM_OF_BROKER, reply=WipeWritePermReply)
class WipeWritePerm(Header):
    broker_name: str | None = None


class AddWritePermReply(Header):
    add_topic_count: Int32


@request(RequestCode.ADD_WRITE_PERM_OF_BROKER, reply=AddWritePermReply)
class AddWritePerm(Header):
    broker_name: str | None = None


@request(RequestCode.GET_BROKER_MEMBER_GROUP)
class GetBrokerMemberGroup(Header):
    cluster_name: str | None = None
    broker_name: str | None = None


@request(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE)
class NotifyMinBrokerIdChange(Header):
    """Sent by the NameServer to the brokers of a group, one-way."""

    min_broker_id: int | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


@request(RequestCode.UPDATE_NAMESRV_CONFIG)
class UpdateNamesrvConfig(Header):
    """The body holds `key=value` lines."""


@request(RequestCode.GET_NAMESRV_CONFIG)
class GetNamesrvConfig(Header):
    pass
