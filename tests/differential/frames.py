"""Bytes that are no requests, and how a server ends the connection that they came on."""

from __future__ import annotations

import asyncio
import struct

from cometmq.wire.codes import SerializeType
from cometmq.wire.command import Command, encode_command
from cometmq.wire.frame import FrameDecoder

SILENCE_S = 0.5
CLOSED, OPEN = "closed", "open"
NOT_SUPPORTED = encode_command(Command(9999, opaque=77))


def frame(header: bytes, form: int = 0, body: bytes = b"") -> bytes:
    return struct.pack(">iI", 4 + len(header) + len(body), form << 24 | len(header)) + header + body


HOSTILE = {
    "a whole request": NOT_SUPPORTED,
    "two requests at once": NOT_SUPPORTED * 2,
    "longer than allowed": struct.pack(">i", 16 * 1024 * 1024 + 1) + bytes(64),
    "longer than memory": struct.pack(">I", 0x7FFFFFFF) + bytes(64),
    "negative length": struct.pack(">i", -1) + bytes(64),
    "header longer than the frame": struct.pack(">iI", 8, 100) + bytes(64),
    "unknown header form": frame(b"{}", form=7),
    "header that is no JSON": frame(b"not JSON"),
    "header that is a JSON list": frame(b"[1,2]"),
    "binary header cut short": frame(b"\x00\x0a\x00", form=int(SerializeType.ROCKETMQ)),
    "binary fields that lie": frame(
        struct.pack(">hBhiiii", 9999, 0, 513, 77, 0, 0, 1 << 20), form=int(SerializeType.ROCKETMQ)
    ),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "an answer nobody waits for": encode_command(Command(0, opaque=5, flag=1)),
}


async def ending(address: str, data: bytes) -> str:
    """What comes back for these bytes: the answers, then whether the connection was closed."""
    host, _, port = address.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    decoder = FrameDecoder()
    seen: list[str] = []
    writer.write(data)
    try:
        while True:
            async with asyncio.timeout(SILENCE_S):
                chunk = await reader.read(65536)
            if not chunk:
                return " ".join([*seen, CLOSED])
            seen.extend("answer" for _ in decoder.feed(chunk))
    except TimeoutError:
        return " ".join([*seen, OPEN])
    except ConnectionResetError:
        return " ".join([*seen, CLOSED])
    finally:
        writer.close()
