"""Message ids.

    offset id   host (ip 4 or 16, port 4) · physical offset 8        hex: 32 or 56 digits; made by the broker
    unique id   ip 4 · pid 2 · class hash 4 · time 4 · counter 2     hex: 32 digits; made by the producer

Mirrors: MessageDecoder.createMessageId, MessageClientIDSetter.
"""

from __future__ import annotations

from cometmq.errors import ProtocolError


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
