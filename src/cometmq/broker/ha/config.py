"""The settings of replication. Names and defaults are Java's.

Mirrors: MessageStoreConfig, the keys of HA.
"""

from __future__ import annotations

from dataclasses import dataclass

from cometmq.errors import ConfigError
from cometmq.wire.ha import TRANSFER_SIZE_MAX


@dataclass(frozen=True)
class HaConfig:
    """Times are milliseconds, sizes bytes; replicas count the master."""

    ha_send_heartbeat_interval: int = 5_000
    ha_housekeeping_interval: int = 20_000
    ha_transfer_batch_size: int = 32 * 1024
    ha_master_address: str | None = None
    ha_max_gap_not_in_sync: int = 256 * 1024 * 1024
    slave_timeout: int = 3_000
    in_sync_replicas: int = 1
    min_in_sync_replicas: int = 1
    enable_auto_in_sync_replicas: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.ha_transfer_batch_size <= TRANSFER_SIZE_MAX:
            raise ConfigError(
                f"haTransferBatchSize={self.ha_transfer_batch_size}: 1 to {TRANSFER_SIZE_MAX} are possible"
            )
        if self.in_sync_replicas < 1 or self.min_in_sync_replicas < 1:
            raise ConfigError("inSyncReplicas and minInSyncReplicas count the master itself: 1 is the least")
        if self.min_in_sync_replicas > self.in_sync_replicas:
            raise ConfigError(
                f"minInSyncReplicas={self.min_in_sync_replicas} is more than inSyncReplicas={self.in_sync_replicas}: "
                "no acknowledgement would wait for so many"
            )
