"""Message ids.

    offset id   host (ip 4 or 16, port 4) · physical offset 8        hex: 32 or 56 digits; made by the broker
    unique id   ip 4 or 16 · pid 2 · seed 4 · time 4 · counter 2     hex: 32 or 56 digits; made by the producer

The time of a unique id counts milliseconds since its month began, in the producer's time zone; the seed tells
producers of one process apart (Java takes its class loader's hash).

Mirrors: MessageDecoder.createMessageId, MessageClientIDSetter.
"""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import Final

from cometmq.errors import ProtocolError

# A clock set back by less than this keeps the id's time at 0 instead of leaping to its far end.
_CLOCK_SLIP_MAX_MS: Final = 1_000_000


def offset_id(host: bytes, physical_offset: int) -> str:
    """The id that the broker gives: where the message stands."""
    return f"{host.hex().upper()}{physical_offset:016X}"


def parse_offset_id(text: str) -> tuple[bytes, int]:
    """Packed host and physical offset of an offset id."""
    try:
        data = bytes.fromhex(text)
    except ValueError:
        data = b""
    if len(data) not in (16, 28):
        raise ProtocolError(f"{text!r} is not an offset message id: 32 or 56 hex digits are expected")
    return data[:-8], int.from_bytes(data[-8:], "big")


class UniqueIds:
    """Makes the ids that a producer gives (the property UNIQ_KEY): 65,536 different ones in a millisecond."""

    def __init__(self, ip: bytes, pid: int, seed: int, zone: tzinfo | None = None) -> None:
        """`ip` is packed, 4 or 16 bytes; `zone` is the machine's own unless given."""
        self._prefix = f"{ip.hex().upper()}{pid & 0xFFFF:04X}{seed & 0xFFFFFFFF:08X}"
        self._zone = zone
        self._month_ms = 0
        self._next_month_ms = 0
        self._counter = 0

    def make(self, now_ms: int) -> str:
        """The next id."""
        if now_ms >= self._next_month_ms:
            self._month_ms, self._next_month_ms = _month_around(now_ms, self._zone)
        elapsed_ms = now_ms - self._month_ms
        if -_CLOCK_SLIP_MAX_MS < elapsed_ms < 0:
            elapsed_ms = 0
        counter = self._counter
        self._counter = (counter + 1) & 0xFFFF
        return f"{self._prefix}{elapsed_ms & 0xFFFFFFFF:08X}{counter:04X}"


def _month_around(now_ms: int, zone: tzinfo | None) -> tuple[int, int]:
    """When the month of `now_ms` began, and when the next one does."""
    now = datetime.fromtimestamp(now_ms / 1000, zone)
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    year, month = divmod(begin.year * 12 + begin.month, 12)
    following = begin.replace(year=year, month=month + 1)
    return int(begin.timestamp()) * 1000, int(following.timestamp()) * 1000
