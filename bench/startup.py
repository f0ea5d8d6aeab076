"""From spawn to the first acknowledged message, and the memory that is then in use while nothing happens.

As an operator starts them: the NameServer, the broker as soon as the NameServer listens, a message as soon as the
NameServer knows the broker. Memory is anonymous memory (`Anonymous` in smaps_rollup): what the process itself
holds, without the files it has mapped, which the page cache holds anyway.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

from tests.original.process import ServerFailed

from bench.ask import Asker
from bench.servers import CometStandalone, Side
from cometmq.errors import PeerError
from cometmq.wire.requests.namesrv import GetRouteInfo
from cometmq.wire.requests.send import SendMessageV2

TIMEOUT_S: Final = 90.0
POLL_INTERVAL_S: Final = 0.005
TOPIC: Final = "bench-first"

_T = TypeVar("_T")


def start_side(side: Side) -> float:
    """Start the processes; seconds until a message was acknowledged."""
    began = time.perf_counter()
    side.namesrv.launch()
    _until(lambda: Asker(side.namesrv_address).close(), lambda: side.namesrv.running)
    side.broker.launch()
    _first_message(side.namesrv_address, side.address, lambda: side.namesrv.running and side.broker.running)
    return time.perf_counter() - began


def start_standalone(server: CometStandalone) -> float:
    began = time.perf_counter()
    server.launch()
    _first_message(server.namesrv_address, server.addr, lambda: server.running)
    return time.perf_counter() - began


def _first_message(namesrv_address: str, broker_address: str, alive: Callable[[], bool]) -> None:
    namesrv = _until(lambda: Asker(namesrv_address), alive)
    with namesrv:
        _until(lambda: namesrv.ask(GetRouteInfo(topic="TBW102")), alive)  # known as soon as the broker registered
    with _until(lambda: Asker(broker_address), alive) as broker:
        request = SendMessageV2(
            producer_group="bench-group", topic=TOPIC, default_topic="TBW102", default_topic_queue_nums=4, queue_id=0,
            sys_flag=0, born_timestamp=int(time.time() * 1000), flag=0, properties="WAIT\x01true\x02",
        )  # fmt: skip
        _until(lambda: broker.ask(request, b"first"), alive)


def _until(attempt: Callable[[], _T], alive: Callable[[], bool]) -> _T:
    """Try until it works."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return attempt()
        except (OSError, PeerError) as fault:
            if not alive():
                raise ServerFailed("a server ended while it started") from fault
            if time.monotonic() > deadline:
                raise ServerFailed(f"nothing was acknowledged within {TIMEOUT_S:.0f} s: {fault}") from fault
        time.sleep(POLL_INTERVAL_S)


def anonymous_mb(pids: Iterable[int]) -> float:
    """Anonymous memory of the processes, in MB of 1,000,000 bytes."""
    return round(sum(map(_anonymous_kib, pids)) * 1024 / 1e6, 1)


def _anonymous_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1])
    raise ValueError(f"smaps_rollup of process {pid} has no line Anonymous")
