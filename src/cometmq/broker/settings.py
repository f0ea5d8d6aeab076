"""From keys and values to what a broker needs to know: its own section, the store's, and its address.

The address that clients are told is `brokerIP1`. Where it is not given: the one we are bound to; bound to all,
the one this machine uses to reach others. `advertised_how` says which it was, for the start banner.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from cometmq import config
from cometmq.broker.config import MASTER_ID, BrokerConfig
from cometmq.broker.ha.config import HaConfig
from cometmq.broker.role import ROLES, SLAVE, SYNC_MASTER
from cometmq.errors import ConfigError
from cometmq.net.pool import split_addresses
from cometmq.net.server import is_loopback, outward_ip
from cometmq.store.config import StoreConfig

ANY_ADDRESS = ("0.0.0.0", "::", "")
# Keys that Java's files carry and that have no counterpart here: accepted in silence.
_NOT_OURS = ("rocketmqHome", "JAVA_HOME")
_BROKER_ID_MAX = 0xFFFFFFFF


@dataclass(frozen=True)
class BrokerSettings:
    """Everything that is fixed when a broker starts."""

    broker: BrokerConfig
    store: StoreConfig
    advertised_how: str
    warnings: tuple[str, ...] = ()
    ha: HaConfig = field(default_factory=HaConfig)


def load_settings(values: Mapping[str, str]) -> BrokerSettings:
    """Read Java's keys; unknown ones become warnings."""
    broker = config.section(BrokerConfig, values)
    store = config.section(StoreConfig, values)
    if broker.listen_port and not 3 <= broker.listen_port <= 65_534:
        why = "as port - 2 and + 1 are taken too; 0 takes free ones"
        raise ConfigError(f"listenPort={broker.listen_port}: 3 to 65534 are possible, {why}")
    if broker.default_message_request_mode not in ("PULL", "POP"):
        raise ConfigError(f"defaultMessageRequestMode={broker.default_message_request_mode}: PULL and POP are known")
    ha = config.section(HaConfig, values)
    ip, how = _advertise(broker)
    broker_id = _broker_id(broker)
    broker = dataclasses.replace(broker, broker_ip1=ip, broker_ip2=broker.broker_ip2 or ip, broker_id=broker_id)
    known = [key for key in values if key not in _NOT_OURS]
    warnings = [
        *config.unknown_keys(known, (BrokerConfig, StoreConfig, HaConfig)),
        *_role_warnings(broker, ha),
        *_address_warnings(broker, ip),
    ]
    return BrokerSettings(broker, store, how, tuple(warnings), ha)


def _broker_id(broker: BrokerConfig) -> int:
    """A master's is 0 whatever the file says, as in Java; a slave must have its own."""
    if broker.broker_role not in ROLES:
        raise ConfigError(f"brokerRole={broker.broker_role}: {', '.join(ROLES)} are known")
    if broker.broker_role != SLAVE:
        return MASTER_ID
    if not MASTER_ID < broker.broker_id <= _BROKER_ID_MAX:
        raise ConfigError(f"brokerId={broker.broker_id}: a slave's is greater than 0, and no other slave's")
    return broker.broker_id


def _role_warnings(broker: BrokerConfig, ha: HaConfig) -> list[str]:
    if broker.broker_role == SYNC_MASTER and ha.in_sync_replicas == 1:
        why = "the master itself is counted. Set inSyncReplicas=2 to have every acknowledged message on a slave, too"
        return [f"brokerRole=SYNC_MASTER with inSyncReplicas=1 waits for nobody: {why}"]
    return []


def _address_warnings(broker: BrokerConfig, ip: str) -> list[str]:
    """Clients that learn of us elsewhere would look for us on their own machine."""
    name_servers = split_addresses(broker.namesrv_addr or "")
    elsewhere = [at for at in name_servers if not is_loopback(at.rpartition(":")[0].strip("[]"))]
    if not elsewhere or not is_loopback(ip):
        return []
    advice = "If there are clients elsewhere, set bindAddress=0.0.0.0, and brokerIP1 to an address that they reach"
    return [f"only this machine can reach {ip}, as which the broker registers with {';'.join(elsewhere)}. {advice}"]


def _advertise(broker: BrokerConfig) -> tuple[str, str]:
    if broker.broker_ip1:
        return broker.broker_ip1, "as brokerIP1 says"
    if broker.bind_address not in ANY_ADDRESS:
        ip = "127.0.0.1" if broker.bind_address == "localhost" else broker.bind_address
        return ip, "the address it is bound to"
    ip = outward_ip(broker.bind_address)
    return ip, "chosen, as brokerIP1 is not set: set it if clients cannot reach this address"
