"""A master with a slave: sends that wait for both, and how fast an empty slave gets what the master has.

    sync_master   SYNC_MASTER with inSyncReplicas=2: the usual pipelined sends, acknowledged when the slave has them
    catch_up      a log of up to one file is filled; then an empty slave is started, and the clock runs from its first
                  request to the report that it has everything

The master itself is asked how far its slave is (GET_BROKER_HA_STATUS), which both sides answer alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.original import CometBroker, JavaBroker
from tests.original.process import BrokerProcess, ServerFailed

from bench.ask import Asker
from bench.servers import BROKER_JVM, CONF, Side, SideName
from cometmq.wire import fastjson
from cometmq.wire.requests.ha import GetBrokerHaStatus

# A side that is stopped while the other has its turn must not count as silent.
PATIENT: Final[dict[str, Any]] = {**CONF, "haHousekeepingInterval": 3_600_000}
SYNC_MASTER: Final = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": 2}
SLAVE: Final = {"brokerRole": "SLAVE", "brokerId": 1, "haSendHeartbeatInterval": 500}
LOG_SIZE: Final = 512 << 20  # below one file: Java gives an empty slave no more
QUICK_LOG_SIZE: Final = 64 << 20
TIMEOUT_S: Final = 180.0
POLL_S: Final = 0.005

IsThere = Callable[[dict[str, Any], int], bool]  # what the master says of a slave, and where its log ends


class ReplicatedSide(Side):
    """A NameServer, a master and a slave, as three processes."""

    def __init__(self, name: SideName, directory: Path, flush: str, master: dict[str, Any] | None = None) -> None:
        super().__init__(name, directory, flush, {**PATIENT, **(master or {})})
        self._directory = directory
        self._flush = flush
        self._slaves = 0
        self.slave: BrokerProcess | None = None

    @property
    def pids(self) -> tuple[int, ...]:
        slaves = () if self.slave is None or not self.slave.running else (self.slave.pid,)
        return *super().pids, *slaves

    def new_slave(self) -> BrokerProcess:
        """An empty one, not started."""
        self._slaves += 1
        folder, conf = self._directory / f"slave-{self._slaves}", {**PATIENT, **SLAVE}
        namesrv = [self.namesrv.addr]
        if self.name == "java":
            self.slave = JavaBroker(folder, namesrv, flush=self._flush, conf=conf, jvm=BROKER_JVM)
        else:
            self.slave = CometBroker(folder, namesrv, flush=self._flush, conf=conf)
        return self.slave

    def start_slave(self) -> None:
        self.new_slave().start()
        with Asker(self.address) as asker:
            await_slave(asker, lambda slave, end: slave["slaveAckOffset"] >= end)

    def kill(self) -> None:
        if self.slave is not None:
            self.slave.kill()
        super().kill()

    def stop(self) -> None:
        if self.slave is not None:
            self.slave.stop()
        super().stop()


def await_slave(asker: Asker, is_there: IsThere) -> float:
    """Wait until a slave has asked for bytes and `is_there` says yes; the time of that."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        status = fastjson.loads(asker.ask(GetBrokerHaStatus()).body)
        for slave in status["haConnectionInfo"]:
            if slave["transferFromWhere"] >= 0 and is_there(slave, status["masterCommitLogMaxOffset"]):
                return time.perf_counter()
        if time.monotonic() > deadline:
            raise ServerFailed(f"the slave is not there after {TIMEOUT_S:.0f} s: {status}")
        time.sleep(POLL_S)


def log_end(asker: Asker) -> int:
    end: int = fastjson.loads(asker.ask(GetBrokerHaStatus()).body)["masterCommitLogMaxOffset"]
    return end


def catch_up(side: ReplicatedSide) -> dict[str, float]:
    """Start an empty slave of a filled master; how fast it gets everything."""
    slave = side.new_slave()
    with Asker(side.address) as asker:
        slave.launch()
        began = await_slave(asker, lambda slave, end: True)
        ended = await_slave(asker, lambda slave, end: slave["slaveAckOffset"] >= end)
        size = log_end(asker)
    slave.kill()
    elapsed_s = ended - began
    mib = size / (1 << 20)
    return {"elapsed_s": round(elapsed_s, 4), "mib": round(mib, 1), "mib_per_s": round(mib / elapsed_s, 1)}
