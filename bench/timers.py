"""Messages for a later time: many are sent, all for one span of a few seconds; how late does each arrive?

A message has arrived when it is stored in its own topic: the store's time is compared with the time that was asked for.
Both times are those of one machine's clock.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Final

from bench.ask import Asker, await_total
from bench.cpu import CpuMeter
from bench.frames import frame_of, send_request
from bench.tally import Invalid, Tally, percentile_ms
from bench.workloads import BODY_SIZE, QUEUES, Job
from cometmq.net.pool import split_address
from cometmq.wire.codes import ResponseCode
from cometmq.wire.command import Command, decode_command
from cometmq.wire.record import Record, decode_records
from cometmq.wire.requests.consume import PullMessage, PullMessageReply

PER_S: Final = 20_000  # due in each second of the job's time: 100,000 in five
LEAD_S: Final = 4.0  # from the last send to the first due time, at least
IN_FLIGHT_MAX: Final = 256
_BODY: Final = b"x" * BODY_SIZE


def run_timers(job: Job, ends: list[int]) -> Tally:
    """Send everything, wait until it is due, read it back."""
    count = int(PER_S * job.duration_s)
    send_s = count / 6_000 + 1  # a pace that both sides surely hold; who is faster waits
    first_due_ms = int((time.time() + send_s + LEAD_S) * 1000)
    due_ms = [first_due_ms + number * 1000 // PER_S for number in range(count)]
    cpu = CpuMeter(job.pids)
    _send_all(job, due_ms)
    if time.time() * 1000 > first_due_ms - 1000:
        raise Invalid("sending took so long that the first messages were due before the last were sent")
    with Asker(job.address) as asker:
        wait_s = due_ms[-1] / 1000 - time.time()
        time.sleep(max(wait_s, 0))
        await_total(asker, job.topic, sum(ends) + count)
        late_ms = [
            record.store_time_ms - int(record.properties["KEYS"])
            for queue, end in enumerate(ends)
            for record in _records(asker, job.topic, queue, end)
        ]
    if len(late_ms) != count:
        raise Invalid(f"{count} messages were to come, and {len(late_ms)} came")
    late_ns = [max(one, 0) * 1_000_000 for one in late_ms]
    tally = Tally.of(count, job.duration_s, late_ns, 0, cpu)
    tally.worst_ms = percentile_ms(late_ns, 1.0)
    tally.early = sum(one < 0 for one in late_ms)
    tally.acknowledged_total = count
    return tally


def _send_all(job: Job, due_ms: list[int]) -> None:
    """A few hundred in flight on one connection; what is refused as busy is sent again."""
    todo = list(enumerate(due_ms))[::-1]
    in_flight: dict[int, int] = {}
    with socket.create_connection(split_address(job.address), timeout=30) as connection:
        answers = _answers(connection)
        while todo or in_flight:
            block = []
            while todo and len(in_flight) < IN_FLIGHT_MAX:
                number, due = todo.pop()
                in_flight[number] = due
                request = send_request(
                    job.topic, number % QUEUES, f"TIMER_DELIVER_MS\x01{due}\x02KEYS\x01{due}\x02WAIT\x01true\x02"
                )
                block.append(frame_of(request, _BODY, opaque=number))
            connection.sendall(b"".join(block))
            for _ in range(min(len(in_flight), IN_FLIGHT_MAX // 2) if todo else len(in_flight)):
                answer = next(answers)
                due = in_flight.pop(answer.opaque)
                if answer.code == ResponseCode.SYSTEM_BUSY:
                    todo.append((answer.opaque, due))
                elif answer.code != ResponseCode.SUCCESS:
                    raise Invalid(f"the broker answered code {answer.code}: {answer.remark}")


def _answers(connection: socket.socket) -> Iterator[Command]:
    data = b""
    while True:
        size = 4 + int.from_bytes(data[:4], "big") if len(data) >= 4 else 4
        if len(data) >= max(size, 5):
            yield decode_command(data[4:size])
            data = data[size:]
            continue
        piece = connection.recv(1 << 16)
        if not piece:
            raise Invalid("the broker closed the connection")
        data += piece


def _records(asker: Asker, topic: str, queue: int, offset: int) -> Iterator[Record]:
    while True:
        request = PullMessage(
            consumer_group="bench-timers", topic=topic, queue_id=queue, queue_offset=offset, max_msg_nums=32,
            sys_flag=4, commit_offset=0, suspend_timeout_millis=0, sub_version=0, subscription="*",
            expression_type="TAG",
        )  # fmt: skip
        answer = asker.exchange(request)
        if answer.code != ResponseCode.SUCCESS:
            return
        yield from decode_records(answer.body)
        offset = PullMessageReply.read(answer.ext).next_begin_offset
