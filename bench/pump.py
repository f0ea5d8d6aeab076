"""Many requests in flight: a few connections, a window on each, every answer checked.

A connection writes its next chunk as soon as the window has room for a whole one. The rate counts the answers
that came between two instants of the steady state, not the run-up and not the tail. An answer that is neither
success nor "busy" makes the run invalid; so does one that nobody waited for, and a pull that brought too few messages.
"""

from __future__ import annotations

import select
import socket
import time
from struct import Struct
from typing import Final

from bench.cpu import CpuMeter
from bench.frames import OPAQUE_DIGITS, OPAQUE_FIRST, OPAQUE_LAST, Load
from bench.tally import Invalid, Tally
from bench.workloads import Job
from cometmq.net.pool import split_address
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import decode_command

_SIZE: Final = Struct(">I")
_RECEIVE_SIZE: Final = 1 << 20
_FINE: Final = b'{"code":0,'
_OPAQUE_MARK: Final = b'"opaque":'
DRAIN_TIMEOUT_S: Final = 30.0


class _Connection:
    """A socket, what is in flight on it, and the bytes that did not fit."""

    def __init__(self, address: str, index: int) -> None:
        self.index = index
        self.socket = socket.create_connection(split_address(address), timeout=DRAIN_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.sent_at: dict[int, int] = {}
        self.opaque = OPAQUE_FIRST
        self.unsent = b""
        self.rest = b""


class Pump:
    """Runs a load through its connections and returns the tally."""

    def __init__(self, job: Job, load: Load, messages_per_answer: int, *, check_records: bool = False) -> None:
        self._job = job
        self._load = load
        self._messages = messages_per_answer
        self._check_records = check_records
        self._busy = 0
        self._answered = 0
        self._latencies_ns: list[int] = []
        self._poll = select.epoll()

    def run(self) -> Tally:
        job = self._job
        connections = {(c := _Connection(job.address, index)).socket.fileno(): c for index in range(job.connections)}
        try:
            for fd, connection in connections.items():
                self._poll.register(fd, select.EPOLLIN)
                self._fill(connection)
            self._until(connections, time.perf_counter() + job.prelude_s, refill=True)
            answered, busy, began = self._answered, self._busy, time.perf_counter()
            self._latencies_ns.clear()
            cpu = CpuMeter(job.pids)
            self._until(connections, began + job.duration_s, refill=True)
            elapsed_s = time.perf_counter() - began
            tally = Tally.of(
                (self._answered - answered) * self._messages, elapsed_s, self._latencies_ns, self._busy - busy, cpu
            )
            self._until(connections, time.perf_counter() + DRAIN_TIMEOUT_S, refill=False)
            left = sum(len(connection.sent_at) for connection in connections.values())
            if left:
                raise Invalid(f"{left} requests were not answered within {DRAIN_TIMEOUT_S:.0f} s")
            tally.acknowledged_total = self._answered * self._messages
            tally.busy_total = self._busy
            return tally
        finally:
            self._poll.close()
            for connection in connections.values():
                connection.socket.close()

    def _until(self, connections: dict[int, _Connection], deadline: float, *, refill: bool) -> None:
        poll, clock = self._poll.poll, time.perf_counter
        while (now := clock()) < deadline:
            for fd, event in poll(deadline - now):
                connection = connections[fd]
                if event & select.EPOLLOUT:
                    self._flush(connection)
                if event & ~select.EPOLLOUT:
                    self._receive(connection)
                    if refill:
                        self._fill(connection)
            if not refill and not any(connection.sent_at for connection in connections.values()):
                return

    def _fill(self, connection: _Connection) -> None:
        """Write chunks while the window has room for a whole one and the socket takes them."""
        room = self._job.window - self._job.chunk
        while len(connection.sent_at) <= room and not connection.unsent:
            opaque = connection.opaque
            block = self._load.next_block(connection.index, opaque)
            connection.opaque = opaque + block.requests
            if connection.opaque + self._job.chunk > OPAQUE_LAST:
                connection.opaque = OPAQUE_FIRST
            now = time.perf_counter_ns()
            for number in range(opaque, opaque + block.requests):
                connection.sent_at[number] = now
            self._write(connection, block.data)

    def _write(self, connection: _Connection, data: bytes | bytearray) -> None:
        try:
            sent = connection.socket.send(data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            connection.unsent = bytes(memoryview(data)[sent:])  # a copy: the block is patched again
            self._poll.modify(connection.socket, select.EPOLLIN | select.EPOLLOUT)

    def _flush(self, connection: _Connection) -> None:
        data, connection.unsent = connection.unsent, b""
        self._poll.modify(connection.socket, select.EPOLLIN)
        self._write(connection, data)

    def _receive(self, connection: _Connection) -> None:
        try:
            piece = connection.socket.recv(_RECEIVE_SIZE)
        except BlockingIOError:
            return
        if not piece:
            raise Invalid("the broker closed the connection")
        data = connection.rest + piece if connection.rest else piece
        at, end = 0, len(data)
        sent_at, latencies = connection.sent_at, self._latencies_ns
        now = time.perf_counter_ns()
        while end - at >= 4:
            frame_end = at + 4 + _SIZE.unpack_from(data, at)[0]
            if frame_end > end:
                break
            if data.startswith(_FINE, at + 8):
                mark = data.find(_OPAQUE_MARK, at, frame_end) + len(_OPAQUE_MARK)
                opaque = int(data[mark : mark + OPAQUE_DIGITS])
                fine = True
            else:
                opaque, fine = self._look_closer(data[at + 4 : frame_end])
            if opaque:
                began = sent_at.pop(opaque, 0)
                if not began:
                    raise Invalid(f"an answer to request {opaque}, which was not asked or already answered")
                if fine:
                    latencies.append(now - began)
                    self._answered += 1
                    if self._check_records:
                        self._count_records(data, at, frame_end)
            at = frame_end
        connection.rest = data[at:] if at < end else b""

    def _look_closer(self, frame: bytes) -> tuple[int, bool]:
        """Opaque of an answer that is not plainly fine, and whether it is; 0 for what is no answer at all."""
        command = decode_command(frame)
        if not command.is_response:
            return 0, False
        if command.code == ResponseCode.SUCCESS:
            return command.opaque, True
        if command.code == ResponseCode.SYSTEM_BUSY:
            self._busy += 1
            return command.opaque, False
        raise Invalid(f"the broker answered code {command.code}: {command.remark}")

    def _count_records(self, data: bytes, frame_at: int, frame_end: int) -> None:
        at = frame_at + 8 + (_SIZE.unpack_from(data, frame_at + 4)[0] & 0xFFFFFF)
        count = 0
        while at < frame_end:
            at += _SIZE.unpack_from(data, at)[0]
            count += 1
        if count != self._messages or at != frame_end:
            raise Invalid(f"a pull brought {count} whole messages instead of {self._messages}")
