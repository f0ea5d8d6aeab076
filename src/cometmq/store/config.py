"""Settings of the store, with Java's defaults where the two mean the same.

A field's key in `broker.conf` is its name in camel case; `metadata["key"]` names it where Java spells it otherwise.
Times without a unit in the name are milliseconds, as in Java; `file_reserved_time` is hours, ratios are percent.

Mirrors: MessageStoreConfig.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cometmq.errors import ConfigError

SYNC_FLUSH: Final = "SYNC_FLUSH"
ASYNC_FLUSH: Final = "ASYNC_FLUSH"


@dataclass(frozen=True)
class StoreConfig:
    """Everything the store can be told. SYNC_FLUSH is CometMQ's default; Java's is ASYNC_FLUSH."""

    store_path_root_dir: str = field(default_factory=lambda: str(Path.home() / "store"))
    store_path_commit_log: str | None = None

    mapped_file_size_commit_log: int = 1024 * 1024 * 1024
    mapped_file_size_consume_queue: int = 300_000 * 20
    mapped_file_size_consume_queue_ext: int = 48 * 1024 * 1024
    mapper_file_size_batch_consume_queue: int = 300_000 * 46
    max_hash_slot_num: int = 5_000_000
    max_index_num: int = 20_000_000
    max_message_size: int = 4 * 1024 * 1024
    message_index_enable: bool = True

    flush_disk_type: str = SYNC_FLUSH
    flush_interval_commit_log: int = 500
    flush_commit_log_least_pages: int = 4
    flush_commit_log_thorough_interval: int = 10_000
    flush_interval_consume_queue: int = 1_000
    flush_consume_queue_thorough_interval: int = 60_000
    sync_flush_timeout: int = 5_000

    delete_when: str = "04"
    file_reserved_time: int = 72
    disk_max_used_space_ratio: int = 75
    disk_space_warning_level_ratio: int = 90
    disk_space_clean_forcibly_ratio: int = 85
    clean_file_forcibly_enable: bool = True
    clean_resource_interval: int = 10_000
    delete_file_batch_max: int = 10

    check_crc_on_recover: bool = field(default=True, metadata={"key": "checkCRCOnRecover"})

    access_message_in_memory_max_ratio: int = 40
    max_transfer_bytes_on_message_in_memory: int = 256 * 1024
    max_transfer_count_on_message_in_memory: int = 32
    max_transfer_bytes_on_message_in_disk: int = 64 * 1024
    max_transfer_count_on_message_in_disk: int = 8
    max_filter_message_size: int = 16_000
    max_msgs_num_batch: int = 64
    default_query_max_num: int = 32
    offset_check_in_slave: bool = False
    message_delay_level: str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    flush_delay_offset_interval: int = 10_000

    # messages for any time
    mapped_file_size_timer_log: int = 100 * 1024 * 1024
    timer_precision_ms: int = 1_000
    timer_roll_window_slot: int = 2 * 24 * 3_600
    timer_flush_interval_ms: int = 1_000
    timer_max_delay_sec: int = 3 * 24 * 3_600
    timer_congest_num_each_slot: int = 0x7FFFFFFF
    append_topic_for_timer_delete_key: bool = False

    def __post_init__(self) -> None:
        if self.flush_disk_type not in (SYNC_FLUSH, ASYNC_FLUSH):
            raise ConfigError(f"flushDiskType={self.flush_disk_type}: {SYNC_FLUSH} or {ASYNC_FLUSH} is expected")
        if "," in (self.store_path_commit_log or ""):
            raise ConfigError(
                f"storePathCommitLog={self.store_path_commit_log}: one folder is possible. Move the files of all of "
                "them into one, or join the disks below it"
            )

    @property
    def commit_log_dir(self) -> str:
        return self.store_path_commit_log or f"{self.store_path_root_dir}/commitlog"

    @property
    def consume_queue_dir(self) -> str:
        return f"{self.store_path_root_dir}/consumequeue"

    @property
    def batch_consume_queue_dir(self) -> str:
        return f"{self.store_path_root_dir}/batchconsumequeue"

    @property
    def index_dir(self) -> str:
        return f"{self.store_path_root_dir}/index"

    @property
    def config_dir(self) -> str:
        return f"{self.store_path_root_dir}/config"

    @property
    def checkpoint_path(self) -> str:
        return f"{self.store_path_root_dir}/checkpoint"

    @property
    def sync_flush(self) -> bool:
        return self.flush_disk_type == SYNC_FLUSH
