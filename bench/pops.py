"""Popping: each connection takes messages from whole topics, 32 at a time, and acknowledges every one by itself.

That is what the Java client's pop consumer does. Acknowledgements of one pop leave together with the next pop, and the
connections take turns, so the broker always has something to do. Each run has a group of its own, which begins so far
before the end of each queue that a run does not reach it: what is popped is in memory on every side, however much
that side was sent before.
"""

from __future__ import annotations

import socket
import time
from struct import Struct
from typing import Final

from bench.ask import Asker, create_group
from bench.cpu import CpuMeter
from bench.frames import OPAQUE_FIRST, frame_of
from bench.tally import Invalid, Tally
from bench.workloads import PULL_COUNT, Job
from cometmq.net.pool import split_address
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import decode_command
from cometmq.wire.requests.consume import UpdateConsumerOffset
from cometmq.wire.requests.pop import AckMessage, PopMessage, PopMessageReply

INVISIBLE_MS: Final = 60_000
TIMEOUT_S: Final = 20.0
BEHIND_COUNT: Final = 60_000  # messages of each queue: 8 queues have enough for 5 s of 96,000 a second

_SIZE: Final = Struct(">I")
_FINE: Final = b'{"code":0,'
_POP_OPAQUE: Final = OPAQUE_FIRST + 1
_OF_POP: Final = b'"opaque":%d' % _POP_OPAQUE


class _Consumer:
    """One connection: a pop and the acknowledgements before it are under way."""

    def __init__(self, job: Job, group: str) -> None:
        self._socket = socket.create_connection(split_address(job.address), timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self._topic, self._group = job.topic, group
        self._pop = frame_of(
            PopMessage(
                consumer_group=group, topic=job.topic, queue_id=-1, max_msg_nums=PULL_COUNT,
                invisible_time=INVISIBLE_MS, poll_time=0, born_time=0, init_mode=0, exp_type="TAG", exp="*",
            ),
            opaque=_POP_OPAQUE,
        )  # fmt: skip
        self._acks_awaited = 0

    def begin(self) -> None:
        self._ask([])

    def turn(self) -> tuple[int, int]:
        """Take what was asked for, acknowledge it and ask for more; (messages taken, acknowledged)."""
        acknowledged = self._acks_awaited
        popped = b""
        for _ in range(acknowledged + 1):  # in any order: the original has threads for each kind
            frame = self._frame()
            if _OF_POP in frame[: _SIZE.unpack_from(frame)[0] + 4]:
                popped = frame
            elif not frame.startswith(_FINE, 4):
                raise Invalid("an acknowledgement was refused")
        acks = self._popped(popped)
        self._ask(acks)
        return len(acks), acknowledged

    def finish(self) -> int:
        """Wait for what is under way; says how many acknowledgements were among it. The last pop stays popped."""
        acknowledged = self._acks_awaited
        for _ in range(acknowledged + 1):
            self._frame()
        self._socket.close()
        return acknowledged

    def _ask(self, acks: list[bytes]) -> None:
        self._socket.sendall(b"".join([*acks, self._pop]))
        self._acks_awaited = len(acks)

    def _popped(self, frame: bytes) -> list[bytes]:
        """The acknowledgements of what a pop brought."""
        answer = decode_command(frame)
        if answer.code != ResponseCode.SUCCESS:
            raise Invalid(f"a pop was answered with code {answer.code} ({answer.remark}): send more messages first")
        reply = PopMessageReply.read(answer.ext)
        starts = dict(_pairs(reply.start_offset_info))
        tail = f"{reply.pop_time} {reply.invisible_time} {reply.revive_qid} 0 broker-a"
        return [
            self._ack(int(queue), offset, f"{starts[queue]} {tail} {queue} {offset}")
            for queue, offsets in _pairs(reply.msg_offset_info)
            for offset in offsets.split(",")
        ]

    def _ack(self, queue_id: int, offset: str, receipt: str) -> bytes:
        request = AckMessage(
            topic=self._topic, consumer_group=self._group, queue_id=queue_id, extra_info=receipt, offset=int(offset)
        )
        return frame_of(request, opaque=OPAQUE_FIRST)

    def _frame(self) -> bytes:
        """The next answer, without its length."""
        data = self._rest
        while len(data) < 4 or len(data) < 4 + _SIZE.unpack_from(data)[0]:
            piece = self._socket.recv(1 << 20)
            if not piece:
                raise Invalid("the broker closed the connection")
            data += piece
        end = 4 + _SIZE.unpack_from(data)[0]
        self._rest = data[end:]
        return data[4:end]


def _pairs(text: str | None) -> list[tuple[str, str]]:
    """`0 queue value;0 queue value`, of which the first field tells plain topics from retry topics."""
    return [(queue, value) for _, queue, value in (part.split(" ") for part in (text or "").split(";") if part)]


def run_pops(job: Job, ends: list[int]) -> Tally:
    group = f"bench-pop-{job.seed}"
    with Asker(job.address) as asker:
        create_group(asker, group)
        for queue_id, end in enumerate(ends):
            asker.ask(UpdateConsumerOffset(job.topic, group, queue_id, max(0, end - BEHIND_COUNT)))
    consumers = [_Consumer(job, group) for _ in range(job.connections)]
    for consumer in consumers:
        consumer.begin()

    def until(deadline: float) -> tuple[int, list[int]]:
        acknowledged, took_ns = 0, []
        while (now := time.perf_counter()) < deadline:
            for consumer in consumers:
                acknowledged += consumer.turn()[1]
            took_ns.append(int((time.perf_counter() - now) * 1e9))
        return acknowledged, took_ns

    until(time.perf_counter() + job.prelude_s)
    cpu, began = CpuMeter(job.pids), time.perf_counter()
    acknowledged, took_ns = until(began + job.duration_s)
    tally = Tally.of(acknowledged, time.perf_counter() - began, took_ns, 0, cpu)
    for consumer in consumers:
        consumer.finish()
    return tally
