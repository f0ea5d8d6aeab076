"""The broker's own settings; the store's are in `store.config`. Names and defaults are those of Java's BrokerConfig.

Differences on purpose: `bind_address` is loopback, and `broker_ip1` is chosen at start when it is not given.

Mirrors: BrokerConfig.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cometmq.model.sysflag import READ_WRITE
from cometmq.net.name_servers import DEFAULT_DOMAIN, DEFAULT_SUBGROUP

MASTER_ID = 0


@dataclass(frozen=True)
class BrokerConfig:
    """One broker. A field's Java key is its name in camelCase."""

    broker_cluster_name: str = "DefaultCluster"
    broker_name: str = "broker-a"
    broker_id: int = MASTER_ID
    broker_role: str = "ASYNC_MASTER"
    broker_permission: int = READ_WRITE
    region_id: str = "DefaultRegion"

    # network
    bind_address: str = "127.0.0.1"
    listen_port: int = 10911
    ha_listen_port: int | None = None
    broker_ip1: str | None = field(default=None, metadata={"key": "brokerIP1"})
    broker_ip2: str | None = field(default=None, metadata={"key": "brokerIP2"})
    namesrv_addr: str | None = None
    fetch_name_srv_addr_by_dns_lookup: bool = False
    fetch_namesrv_addr_by_address_server: bool = False
    namesrv_domain: str = field(default=DEFAULT_DOMAIN, metadata={"key": "rocketmq.namesrv.domain"})
    namesrv_subgroup: str = field(default=DEFAULT_SUBGROUP, metadata={"key": "rocketmq.namesrv.domain.subgroup"})
    register_name_server_period: int = 30_000
    register_broker_timeout_mills: int = 24_000
    force_register: bool = True
    compressed_register: bool = False
    server_channel_max_idle_time_seconds: int = 120
    enable_shutdown_gracefully: bool = False
    shutdown_wait_time_seconds: int = 30
    channel_expired_timeout: int = 120_000

    # topics and groups
    auto_create_topic_enable: bool = True
    auto_create_subscription_group: bool = True
    default_topic_queue_nums: int = 8
    cluster_topic_enable: bool = True
    broker_topic_enable: bool = True
    trace_topic_enable: bool = False
    msg_trace_topic_name: str = "RMQ_SYS_TRACE_TOPIC"
    trace_on: bool = True
    validate_system_topic_when_update_topic: bool = True
    clear_retry_topic_when_delete_topic: bool = True
    enable_mixed_message_type: bool = False
    enable_create_sys_group: bool = True
    enable_split_metadata: bool = True
    split_metadata_size: int = 2_000
    revive_queue_num: int = 8
    timer_wheel_enable: bool = True

    # clients
    notify_consumer_ids_changed_enable: bool = True
    reject_pull_consumer_enable: bool = False
    subscription_expired_timeout: int = 600_000
    rebalance_lock_max_live_time: int = field(
        default=60_000, metadata={"key": "rocketmq.broker.rebalance.lockMaxLiveTime"}
    )

    # assignment by the broker
    server_load_balancer_enable: bool = True
    load_balance_poll_name_server_interval: int = 30_000
    default_message_request_mode: str = "PULL"
    default_pop_share_queue_num: int = -1

    # sending
    send_thread_pool_queue_capacity: int = 10_000
    broker_fast_failure_enable: bool = True
    os_page_cache_busy_time_out_mills: int = 1_000
    reject_transaction_message: bool = False
    store_reply_message_enable: bool = True
    recall_message_enable: bool = False
    allow_recall_when_broker_not_writeable: bool = True

    # pulling
    long_polling_enable: bool = True
    short_polling_time_mills: int = 1_000
    lite_pull_message_enable: bool = True
    slave_read_enable: bool = False
    enable_property_filter: bool = False
    filter_support_retry: bool = False
    filter_data_clean_time_span: int = 24 * 3600 * 1000
    expect_consumer_num_use_filter: int = 32
    max_error_rate_of_bloom_filter: int = 20
    default_query_max_num: int = 32

    # transactions
    transaction_time_out: int = 6_000
    transaction_check_max: int = 15
    transaction_check_interval: int = 30_000
    transaction_op_msg_max_size: int = 4_096
    transaction_op_batch_interval: int = 3_000

    # pop
    max_pop_polling_size: int = 100_000
    pop_polling_size: int = 1_024
    revive_interval: int = 1_000
    enable_pop_buffer_merge: bool = False
    pop_ck_stay_buffer_time: int = 10_000
    pop_ck_stay_buffer_time_out: int = 3_000
    pop_ck_max_buffer_size: int = 200_000
    pop_ck_offset_max_queue_size: int = 20_000
    enable_pop_message_threshold: bool = False
    pop_inflight_message_threshold: int = 10_000
    enable_retry_topic_v2: bool = False
    retrieve_message_from_pop_retry_topic_v1: bool = True
    pop_from_retry_probability: int = 20
    pop_from_retry_probability_for_priority: int = 0
    priority_order_asc: bool = True
    pop_response_return_actual_retry_topic: bool = False
    init_pop_offset_by_check_msg_in_mem: bool = True
    enable_notify_after_pop_order_lock_release: bool = True
    use_message_filter_for_notification: bool = True
    max_message_filter_num_for_notification: int = 64

    # a group of brokers whose master is gone
    enable_slave_acting_master: bool = False
    enable_remote_escape: bool = False
    skip_pre_online: bool = False
    lock_in_strict_mode: bool = False
    total_replicas: int = 1
    broker_heartbeat_interval: int = 1_000
    send_heartbeat_timeout_millis: int = 1_000
    sync_broker_member_group_period: int = 1_000
    broker_not_active_timeout_millis: int = 10_000

    # consumer offsets
    flush_consumer_offset_interval: int = 5_000
    consumer_offset_update_version_step: int = 500
    use_server_side_reset_offset: bool = True
    enable_broadcast_offset_store: bool = True
    broadcast_offset_expire_second: int = 120
    broadcast_offset_expire_max_second: int = 300

    # delay levels; the levels themselves are the store's
    delay_offset_update_version_step: int = 200
