"""The NameServer's settings, with Java's keys and defaults, and which of them may change while it runs.

Difference on purpose: `bind_address` is loopback. Java's thread pool sizes have no meaning here and are not declared.

Mirrors: NamesrvConfig, NettyServerConfig.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final


def _in_home(name: str) -> str:
    return str(Path.home() / "namesrv" / name)


@dataclass(frozen=True)
class NamesrvConfig:
    """One NameServer. A field's Java key is its name in camelCase; times are milliseconds unless named otherwise."""

    bind_address: str = "127.0.0.1"
    listen_port: int = 9876
    server_channel_max_idle_time_seconds: int = 120
    enable_shutdown_gracefully: bool = False
    shutdown_wait_time_seconds: int = 30

    rocketmq_home: str | None = field(default_factory=lambda: os.environ.get("ROCKETMQ_HOME"))
    kv_config_path: str = field(default_factory=lambda: _in_home("kvConfig.json"))
    config_store_path: str = field(default_factory=lambda: _in_home("namesrv.properties"))

    product_env_name: str = "center"
    scan_not_active_broker_interval: int = 5_000
    need_wait_for_service: bool = False
    wait_seconds_for_service: int = 45

    order_message_enable: bool = False
    return_order_topic_config_to_broker: bool = True
    delete_topic_with_broker_registration: bool = False
    enable_all_topic_list: bool = True
    enable_topic_list: bool = True

    support_acting_master: bool = False
    notify_min_broker_id_changed: bool = False

    config_black_list: str = "configBlackList;configStorePath;kvConfigPath"


CHANGEABLE: Final = frozenset(
    {
        "productEnvName",
        "scanNotActiveBrokerInterval",
        "needWaitForService",
        "waitSecondsForService",
        "orderMessageEnable",
        "returnOrderTopicConfigToBroker",
        "deleteTopicWithBrokerRegistration",
        "enableAllTopicList",
        "enableTopicList",
        "supportActingMaster",
        "notifyMinBrokerIdChanged",
    }
)
"""What UPDATE_NAMESRV_CONFIG may set. An allow-list: a list of what is forbidden has let paths through before
(CVE-2023-37582), and with a path one writes any file."""
