"""Microseconds that the wire floor takes for one send: read the command, read its header, write the reply.

python -m bench.micro_wire
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from typing import Any

from cometmq.wire.codes import FLAG_RESPONSE
from cometmq.wire.command import Command, decode_command, encode_command, encode_head
from cometmq.wire.record import decode_record, encode_record, pack_host
from cometmq.wire.requests.send import SendMessageReply, SendMessageV2

REPEATS = 7
CALLS = 20_000

BODY = b"x" * 1024
HEADER = SendMessageV2(
    producer_group="producers",
    topic="TopicTest",
    default_topic="TBW102",
    default_topic_queue_nums=4,
    queue_id=3,
    sys_flag=0,
    born_timestamp=1_700_000_000_123,
    flag=0,
    properties="UNIQ_KEY\x017F0000010B2C18B4AAC29F1E3C4D0000\x02WAIT\x01true\x02TAGS\x01TagA\x02",
    max_reconsume_times=16,
    broker_name="broker-a",
)
HOST = pack_host("127.0.0.1", 10911)


def reply() -> bytes:
    header = SendMessageReply("7F00000100002A9F0000000000000000", 3, 1_234_567)
    return encode_head(Command(0, opaque=77, flag=FLAG_RESPONSE, ext=header.write()), 0)


def record() -> bytes:
    return encode_record(
        topic=b"TopicTest",
        queue_id=3,
        flag=0,
        queue_offset=1,
        physical_offset=2,
        sys_flag=0,
        born_time_ms=1_700_000_000_123,
        born_host=HOST,
        store_time_ms=1_700_000_000_456,
        store_host=HOST,
        body=BODY,
        properties_data=b"TAGS\x01TagA\x02",
    )


def best_us(call: Callable[[], Any]) -> float:
    """The quickest of some runs in CPU time: what disturbs a run only makes it slower."""
    return min(timeit.repeat(call, timer=time.process_time, number=CALLS, repeat=REPEATS)) / CALLS * 1e6


def main() -> None:
    command = HEADER.command(BODY)
    frames = {}
    for form, name in enumerate(("JSON", "binary")):
        command.serialize = form
        frames[name] = memoryview(encode_command(command))[4:]
    ext = decode_command(frames["JSON"]).ext
    stored = record()
    rows: dict[str, Callable[[], Any]] = {
        "decode_command, JSON": lambda: decode_command(frames["JSON"]),
        "decode_command, binary": lambda: decode_command(frames["binary"]),
        "SendMessageV2.read": lambda: SendMessageV2.read(ext),
        "SendMessageReply, encoded": reply,
        "encode_record": record,
        "decode_record": lambda: decode_record(stored),
    }
    for name, call in rows.items():
        print(f"{name:28} {best_us(call):6.2f} µs")


if __name__ == "__main__":
    main()
