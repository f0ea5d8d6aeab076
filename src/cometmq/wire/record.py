"""The message record: as it stands in the CommitLog, as a pull answer carries it, as HA streams it.

     0  total size   4      36  sysFlag       4
     4  magic        4      40  born time     8
     8  body CRC     4      48  born host     8 or 20  (ip, port 4)
    12  queue id     4      ..  store time    8
    16  flag         4      ..  store host    8 or 20
    20  queue offset 8      ..  reconsumed    4
    28  physical off 8      ..  prepared off  8
                            ..  body          4 + n
                            ..  topic         1 + n (v1) or 2 + n (v2)
                            ..  properties    2 + n

All integers big-endian. The v6 bits of sysFlag widen a host from 8 to 20 bytes. A blank record
(total size, magic, nothing more that matters) fills the end of a segment that the next message did not fit.
Invariant: reading garbage raises `CorruptRecord` and nothing else.

Mirrors: MessageExtEncoder, MessageDecoder, CommitLog.checkMessageAndReturnSize.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct, error
from typing import Final
from zlib import crc32

from cometmq.errors import CorruptRecord, MessageRefused
from cometmq.model import properties
from cometmq.model.sysflag import MessageFlag

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194
BLANK_SIZE: Final = 8

QUEUE_OFFSET_AT: Final = 20
PHYSICAL_OFFSET_AT: Final = 28
SYS_FLAG_AT: Final = 36
RECORD_SIZE_MIN: Final = 91  # v4 hosts, no body, no topic, no properties

Buffer = bytes | bytearray | memoryview

_V6 = int(MessageFlag.BORN_HOST_V6), int(MessageFlag.STORE_HOST_V6)


def _head(born_size: int, store_size: int) -> Struct:
    return Struct(f">iIIiiqqiq{born_size}sq{store_size}siqi")


# Up to and including the body's length; keyed by the v6 bits of sysFlag.
HEADS: Final = {
    0: _head(8, 8),
    0x10: _head(20, 8),
    0x20: _head(8, 20),
    0x30: _head(20, 20),
}
PREFIX: Final = Struct(">iI")
_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")
_TOPIC_V1_MAX: Final = 127  # the length is a signed byte
_V4_HEAD: Final = HEADS[0]
_V4_HEAD_SIZE: Final = _V4_HEAD.size


@dataclass(slots=True)
class Record:
    """One decoded record. Hosts are packed (ip bytes + 4-byte port); `host_text` makes them readable."""

    topic: str
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_time_ms: int
    born_host: bytes
    store_time_ms: int
    store_host: bytes
    reconsume_times: int
    prepared_offset: int
    body: bytes
    properties_text: str
    body_crc: int
    size: int
    magic: int = MAGIC_V1

    @property
    def properties(self) -> dict[str, str]:
        return properties.parse(self.properties_text)


def pack_host(ip: str, port: int) -> bytes:
    """An address as records store it: 4 or 16 bytes of ip, then the port in 4."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    return socket.inet_pton(family, ip.partition("%")[0]) + port.to_bytes(4, "big")


def host_text(host: bytes) -> str:
    """`ip:port` of a packed address."""
    ip, port = host[:-4], int.from_bytes(host[-4:], "big")
    if len(ip) == 4:
        return f"{socket.inet_ntop(socket.AF_INET, ip)}:{port}"
    return f"[{socket.inet_ntop(socket.AF_INET6, ip)}]:{port}"


def body_crc(body: Buffer) -> int:
    """CRC-32 without its top bit: Java keeps it in a non-negative int."""
    return crc32(body) & 0x7FFFFFFF


def v6_flags(born_host: bytes, store_host: bytes) -> int:
    """The sysFlag bits that announce 20-byte hosts."""
    return (_V6[0] if len(born_host) == 20 else 0) | (_V6[1] if len(store_host) == 20 else 0)


def encode_record(
    *,
    topic: bytes,
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_time_ms: int,
    born_host: bytes,
    store_time_ms: int,
    store_host: bytes,
    reconsume_times: int = 0,
    prepared_offset: int = 0,
    body: Buffer = b"",
    properties_data: bytes = b"",
) -> bytes:
    """One record's bytes. A topic over 127 bytes makes it v2, as Java does. `sys_flag` must carry the v6 bits."""
    topic_size = len(topic)
    if len(properties_data) > properties.PROPERTIES_SIZE_MAX:
        raise MessageRefused(f"the properties take {len(properties_data)} bytes; {properties.PROPERTIES_SIZE_MAX} fit")
    if topic_size <= _TOPIC_V1_MAX:
        magic, topic_head = MAGIC_V1, bytes((topic_size,))
    else:
        magic, topic_head = MAGIC_V2, _SHORT.pack(topic_size)
    head = HEADS[sys_flag & 0x30]
    total = head.size + len(body) + len(topic_head) + topic_size + 2 + len(properties_data)
    return b"".join(
        (
            head.pack(
                total,
                magic,
                crc32(body) & 0x7FFFFFFF,
                queue_id,
                flag,
                queue_offset,
                physical_offset,
                sys_flag,
                born_time_ms,
                born_host,
                store_time_ms,
                store_host,
                reconsume_times,
                prepared_offset,
                len(body),
            ),
            body,
            topic_head,
            topic,
            _SHORT.pack(len(properties_data)),
            properties_data,
        )
    )


def encode_blank(size: int) -> bytes:
    """The filler that ends a segment: `size` bytes to its end, of which only the first eight are written."""
    return PREFIX.pack(size, MAGIC_BLANK)


def decode_record(buffer: Buffer, start: int = 0, *, check_crc: bool = False, path: str = "") -> Record:
    """Read the record that starts at `start`; every length in it must agree with its total size."""
    view = memoryview(buffer)
    try:
        total, magic = PREFIX.unpack_from(view, start)
        if magic not in (MAGIC_V1, MAGIC_V2):
            raise CorruptRecord(path, start, f"magic {magic:#x} is not a message")
        if total < RECORD_SIZE_MIN or total > len(view) - start:
            raise CorruptRecord(path, start, f"total size {total}, but {len(view) - start} bytes are there")
        sys_flag = int.from_bytes(view[start + SYS_FLAG_AT : start + SYS_FLAG_AT + 4], "big", signed=True)
        head = HEADS[sys_flag & 0x30]
        fields = head.unpack_from(view, start)
        body_size = fields[14]
        end = start + total
        at = start + head.size
        if body_size < 0 or body_size > end - at:
            raise CorruptRecord(path, start, f"body length {body_size} does not fit in {total} bytes")
        body = bytes(view[at : at + body_size])
        at += body_size
        if magic == MAGIC_V1:
            topic_size, at = view[at], at + 1
        else:
            topic_size, at = _SHORT.unpack_from(view, at)[0], at + 2
        if not 0 <= topic_size <= (_TOPIC_V1_MAX if magic == MAGIC_V1 else 0x7FFF):
            raise CorruptRecord(path, start, f"topic length {topic_size} is out of range")
        topic = str(view[at : at + topic_size], "utf-8", "replace")
        at += topic_size
        properties_size = _SHORT.unpack_from(view, at)[0]
        at += 2
        if properties_size < 0 or at + properties_size != end:
            raise CorruptRecord(path, start, f"field lengths sum to {at + properties_size - start}, not {total}")
        # A producer may store properties that are not UTF-8, and the original serves them: so must we.
        text = str(view[at:end], "utf-8", "replace")
    except (error, IndexError) as broken:
        raise CorruptRecord(path, start, f"cut short: {broken}") from None
    if check_crc and body_size and body_crc(body) != fields[2]:
        raise CorruptRecord(path, start, "the body does not match its CRC")
    return Record(
        topic=topic,
        queue_id=fields[3],
        flag=fields[4],
        queue_offset=fields[5],
        physical_offset=fields[6],
        sys_flag=sys_flag,
        born_time_ms=fields[8],
        born_host=fields[9],
        store_time_ms=fields[10],
        store_host=fields[11],
        reconsume_times=fields[12],
        prepared_offset=fields[13],
        body=body,
        properties_text=text,
        body_crc=fields[2],
        size=total,
        magic=magic,
    )


def properties_of(buffer: Buffer) -> bytes:
    """The properties of the record that starts here, as they are stored; nothing else of it is read."""
    view = memoryview(buffer)
    try:
        head = HEADS[view[SYS_FLAG_AT + 3] & 0x30]
        at = head.size + _INT.unpack_from(view, head.size - 4)[0]
        if PREFIX.unpack_from(view)[1] == MAGIC_V2:
            at += 2 + _SHORT.unpack_from(view, at)[0]
        else:
            at += 1 + view[at]
        return bytes(view[at + 2 : at + 2 + _SHORT.unpack_from(view, at)[0]])
    except (error, IndexError) as broken:
        raise CorruptRecord("", 0, f"cut short: {broken}") from None


def decode_records(buffer: Buffer, *, check_crc: bool = False) -> Iterator[Record]:
    """All records of a pull answer, one after the other."""
    at = 0
    while at < len(buffer):
        record = decode_record(buffer, at, check_crc=check_crc)
        yield record
        at += record.size
