"""One request in flight: what a caller waits who sends one message and then the next."""

from __future__ import annotations

import socket
import time
from typing import Final

from bench.cpu import CpuMeter
from bench.frames import OPAQUE_FIRST, Load
from bench.tally import Invalid, Tally
from bench.workloads import Job
from cometmq.net.pool import split_address
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import decode_command

TIMEOUT_S: Final = 10.0


def run_single(job: Job, load: Load) -> Tally:
    """Send, wait, send, until the time is over."""
    latencies_ns: list[int] = []
    total = 0
    with socket.create_connection(split_address(job.address), timeout=TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        prelude_end = time.perf_counter() + job.prelude_s
        while time.perf_counter() < prelude_end:
            _exchange(connection, load, total)
            total += 1
        cpu, began = CpuMeter(job.pids), time.perf_counter()
        end = began + job.duration_s
        while time.perf_counter() < end:
            latencies_ns.append(_exchange(connection, load, total))
            total += 1
        elapsed_s = time.perf_counter() - began
    tally = Tally.of(len(latencies_ns), elapsed_s, latencies_ns, 0, cpu)
    tally.acknowledged_total = total
    return tally


def _exchange(connection: socket.socket, load: Load, number: int) -> int:
    """One round trip, in nanoseconds; the checks of the answer are not part of it."""
    block = load.next_block(0, OPAQUE_FIRST + number)
    began = time.perf_counter_ns()
    connection.sendall(block.data)
    data = connection.recv(65_536)
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        piece = connection.recv(65_536)
        if not piece:
            raise Invalid("the broker closed the connection")
        data += piece
    took_ns = time.perf_counter_ns() - began
    answer = decode_command(data[4 : 4 + int.from_bytes(data[:4], "big")])
    if answer.code != ResponseCode.SUCCESS or answer.opaque != OPAQUE_FIRST + number:
        raise Invalid(f"the broker answered request {OPAQUE_FIRST + number} with {answer!r}")
    return took_ns
