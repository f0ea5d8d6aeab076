"""What brokers, clients and tools ask of a NameServer.

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
    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: int
    heartbeat_timeout_millis: int | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = named("bodyCrc32", default=0)


@request(RequestCode.UNREGISTER_BROKER)
class UnregisterBroker(Header):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


@request(RequestCode.BROKER_HEARTBEAT)
class BrokerHeartbeat(Header):
    cluster_name: str
    broker_addr: str
    broker_name: str
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
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


@request(RequestCode.GET_ROUTEINFO_BY_TOPIC)
class GetRouteInfo(Header):
    topic: str
    accept_standard_json_only: bool = False


@request(RequestCode.GET_BROKER_CLUSTER_INFO)
class GetClusterInfo(Header):
    pass


@request(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
class GetAllTopicList(Header):
    pass


@request(RequestCode.GET_TOPICS_BY_CLUSTER)
class GetTopicsByCluster(Header):
    cluster: str


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
    topic: str
    cluster_name: str | None = None


@request(RequestCode.REGISTER_TOPIC_IN_NAMESRV)
class RegisterTopicInNamesrv(Header):
    topic: str


@request(RequestCode.PUT_KV_CONFIG)
class PutKvConfig(Header):
    namespace: str
    key: str
    value: str


class KvConfigReply(Header):
    value: str | None = None


@request(RequestCode.GET_KV_CONFIG, reply=KvConfigReply)
class GetKvConfig(Header):
    namespace: str
    key: str


@request(RequestCode.DELETE_KV_CONFIG)
class DeleteKvConfig(Header):
    namespace: str
    key: str


@request(RequestCode.GET_KVLIST_BY_NAMESPACE)
class GetKvListByNamespace(Header):
    namespace: str


class WipeWritePermReply(Header):
    wipe_topic_count: Int32


@request(RequestCode.WIPE_WRITE_PERM_OF_BROKER, reply=WipeWritePermReply)
class WipeWritePerm(Header):
    broker_name: str


class AddWritePermReply(Header):
    add_topic_count: Int32


@request(RequestCode.ADD_WRITE_PERM_OF_BROKER, reply=AddWritePermReply)
class AddWritePerm(Header):
    broker_name: str


@request(RequestCode.GET_BROKER_MEMBER_GROUP)
class GetBrokerMemberGroup(Header):
    cluster_name: str
    broker_name: str


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
