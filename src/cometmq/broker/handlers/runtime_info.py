"""How a broker fares, as names and texts: GET_BROKER_RUNTIME_INFO (28), which mqadmin's brokerStatus prints.

The names are the original's; three are CometMQ's own, and say what the store does now:

    cometmq.store.state     writable, following (a slave), disk full, read-only (damaged), fenced (the disk failed)
    cometmq.store.fenced    1 while nothing is taken until a restart, for alarms; else 0
    cometmq.store.why       a sentence, where there is something to say

CometMQ has no queues before threads, so those but the first are empty, and as large as the original's.

Mirrors: AdminBrokerProcessor.getBrokerRuntimeInfo, StoreStatsService.getRuntimeInfo.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from cometmq.broker.config import BrokerConfig
from cometmq.broker.durability import Durability
from cometmq.broker.role import Role
from cometmq.broker.statistics import Rates, Reads, Sample
from cometmq.clock import Clock
from cometmq.net.routes import LATER, Call, Later, handles
from cometmq.store.engine import LASTING, Store
from cometmq.wire.bodies.kv import encode_kv_table
from cometmq.wire.codes import VERSION_TEXT
from cometmq.wire.requests.admin import GetBrokerRuntimeInfo

_QUEUE_CAPACITIES: Final = {"pull": 100_000, "litePull": 100_000, "query": 20_000, "ack": 100_000}
_NO_POOL: Final = (1 << 31) - 1  # buffers of a pool that is not used


class RuntimeInfo:
    """Serves operators."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        store: Store,
        durability: Durability,
        role: Role,
        reads: Reads,
        told: Iterable[Callable[[], Mapping[str, str]]],
    ) -> None:
        self._config = config
        self._clock = clock
        self._store = store
        self._durability = durability
        self._role = role
        self._reads = reads
        self._told = told
        self._rates = Rates(durability.write_times)
        self._booted_ms = clock.now_ms()
        self._first_offset = store.written_offset

    def sample(self) -> None:
        """Once in a while: count."""
        reads = self._reads
        now_s = time.monotonic()
        self._rates.take(Sample(now_s, self._store.put_count, reads.found, reads.missed, reads.messages))

    @handles(GetBrokerRuntimeInfo)
    def runtime_info(self, request: GetBrokerRuntimeInfo, call: Call) -> Later:
        table = self._store_state() | self._place() | self._sends() | self._reads_and_rates() | self._queues()
        table["brokerActive"] = "true" if self._role.working else "false"
        table["brokerVersionDesc"] = VERSION_TEXT
        table["bootTimestamp"] = str(self._booted_ms)
        table["runtime"] = lasting(self._clock.now_ms() - self._booted_ms)
        table["startAcceptSendRequestTimeStamp"] = "0"
        for tell in self._told:
            table.update(tell())
        call.reply(body=encode_kv_table(table))
        return LATER

    def _store_state(self) -> dict[str, str]:
        name, why = self._store.state
        return {
            "cometmq.store.state": name,
            "cometmq.store.fenced": str(int(name in LASTING)),
            "cometmq.store.why": why,
        }

    def _place(self) -> dict[str, str]:
        """The log and its disk."""
        store = self._store
        log_ratio, queue_ratio = map(str, store.disk_ratios)
        disk = shutil.disk_usage(store.config.store_path_root_dir)
        return {
            "commitLogDiskRatio": log_ratio,
            f"commitLogDiskRatio_{store.config.commit_log_dir}": log_ratio,
            "consumeQueueDiskRatio": queue_ratio,
            "commitLogDirCapacity": f"Total : {readable(disk.total)}, Free : {readable(disk.free)}.",
            "commitLogMinOffset": str(store.min_physical_offset if store.written_offset else -1),
            "commitLogMaxOffset": str(store.written_offset),
            "dispatchBehindBytes": str(store.dispatch_behind_bytes),
            "dispatchMaxBuffer": "0",
            "earliestMessageTimeStamp": str(store.store_times_ms[0]),
            "remainHowManyDataToFlush": readable(store.written_offset - store.flushed_offset),
            "remainTransientStoreBufferNumbs": str(_NO_POOL),
        }

    def _sends(self) -> dict[str, str]:
        store, durability = self._store, self._durability
        count = store.put_count
        size = store.written_offset - self._first_offset
        times = durability.write_times
        return {
            "putMessageTimesTotal": str(count or 1),  # as the original, which divides by it
            "putMessageFailedTimes": str(durability.refused + store.refused_count),
            "putMessageSizeTotal": str(size),
            "putMessageAverageSize": str(size / (count or 1)),
            "putMessageEntireTimeMax": str(times.longest_ms),
            "putMessageDistributeTime": times.classes() or "null",
            "putLatency99": f"{times.percentile_ms(0.99):.2f}",
            "putLatency999": f"{times.percentile_ms(0.999):.2f}",
            "pageCacheLockTimeMills": "0",
            "msgPutTotalTodayNow": str(count),
            "msgPutTotalTodayMorning": "0",
            "msgPutTotalYesterdayMorning": "0",
        }

    def _reads_and_rates(self) -> dict[str, str]:
        rates = self._rates.per_second
        return {
            "msgGetTotalTodayNow": str(self._reads.messages),
            "msgGetTotalTodayMorning": "0",
            "msgGetTotalYesterdayMorning": "0",
            "getMessageEntireTimeMax": "0",
            "putTps": _joined(rates("put")),
            "getFoundTps": _joined(rates("found")),
            "getMissTps": _joined(rates("missed")),
            "getTransferredTps": _joined(rates("messages")),
            "getTotalTps": _joined(rate or 0.0 for rate in rates("found", "missed")),
        }

    def _queues(self) -> dict[str, str]:
        table = {
            "sendThreadPoolQueueSize": str(self._durability.waiting),
            "sendThreadPoolQueueCapacity": str(self._config.send_thread_pool_queue_capacity),
            "sendThreadPoolQueueHeadWaitTimeMills": str(self._durability.longest_wait_ms),
            "EndTransactionQueueSize": "0",
            "EndTransactionThreadPoolQueueCapacity": "100000",
        }
        for name, capacity in _QUEUE_CAPACITIES.items():
            table[f"{name}ThreadPoolQueueSize"] = "0"
            table[f"{name}ThreadPoolQueueCapacity"] = str(capacity)
            table[f"{name}ThreadPoolQueueHeadWaitTimeMills"] = "0"
        return table


def _joined(rates: Iterable[float | None]) -> str:
    return " ".join("" if rate is None else str(rate) for rate in rates)


def lasting(ms: int) -> str:
    """A time as the original's tools show it."""
    seconds = ms // 1000
    days, hours, minutes = seconds // 86_400, seconds // 3600 % 24, seconds // 60 % 60
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]"


def readable(size: int) -> str:
    """A number of bytes as the original's tools show it."""
    if size < 1024:
        return f"{size} B"
    exponent = (size.bit_length() - 1) // 10
    return f"{size / 1024**exponent:.1f} {'KMGTPE'[exponent - 1]}iB"
