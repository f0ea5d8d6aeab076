"""Bodies that travel packed: zlib always, lz4 and zstd where their packages are installed.

    sysFlag   bit 0: packed     bits 8-10: 1 lz4 (frame), 2 zstd, 3 zlib; 0 is zlib too, from clients before 5

A frame of lz4 has independent blocks: the Java library reads no others.
Invariant: bytes that cannot be unpacked, or would be more than `SIZE_MAX`, raise `ProtocolError`.

Mirrors: CompressorFactory, CompressionType.
"""

from __future__ import annotations

import importlib
import zlib
from enum import IntEnum
from typing import Any, Final

from cometmq.errors import InvalidArgument, ProtocolError
from cometmq.model.sysflag import MessageFlag

SIZE_MAX: Final = 128 * 1024 * 1024
_CODEC_SHIFT: Final = 8
_CODEC_MASK: Final = 0x7
_ZSTD_PIECE: Final = 1024


class Compression(IntEnum):
    """How bodies are packed."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3

    @property
    def sys_flag(self) -> int:
        """The bits that announce it."""
        return MessageFlag.COMPRESSED | self << _CODEC_SHIFT


_PACKAGES: Final = {Compression.LZ4: ("lz4.frame", "lz4"), Compression.ZSTD: ("zstandard", "zstandard")}


def codec(kind: Compression) -> Any:
    """The library of a codec; says how to install it."""
    if kind is Compression.ZLIB:
        return zlib
    module, package = _PACKAGES[kind]
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InvalidArgument(
            f"{kind.name.lower()} needs the package {package}: pip install 'cometmq[{kind.name.lower()}]'"
        ) from None


def compress(body: bytes, kind: Compression = Compression.ZLIB, level: int = 5) -> bytes:
    """Pack a body."""
    library = codec(kind)
    if kind is Compression.LZ4:
        return bytes(library.compress(body, compression_level=level, block_linked=False))
    if kind is Compression.ZSTD:
        return bytes(library.ZstdCompressor(level=level).compress(body))
    return zlib.compress(body, level)


def decompress(body: bytes, sys_flag: int) -> bytes:
    """Unpack a body by its message's sysFlag."""
    number = sys_flag >> _CODEC_SHIFT & _CODEC_MASK
    try:
        kind = Compression(number or Compression.ZLIB)
    except ValueError:
        raise ProtocolError(
            f"the body is packed with codec {number}; 1 (lz4), 2 (zstd) and 3 (zlib) are known"
        ) from None
    library = codec(kind)
    try:
        if kind is Compression.ZLIB:
            unpacker = zlib.decompressobj()
            data = unpacker.decompress(body, SIZE_MAX)
            is_whole = unpacker.eof
        elif kind is Compression.LZ4:
            unpacker = library.LZ4FrameDecompressor()
            data = unpacker.decompress(body, SIZE_MAX)
            is_whole = unpacker.eof
        else:
            data, is_whole = _unpack_zstd(library, body)
    except Exception as broken:  # each library has errors of its own
        raise ProtocolError(f"a body of {len(body)} bytes cannot be unpacked as {kind.name}: {broken}") from None
    if not is_whole:
        raise ProtocolError(f"a body of {len(body)} bytes, packed as {kind.name}, is cut off or over {SIZE_MAX} bytes")
    return bytes(data)


def _unpack_zstd(library: Any, body: bytes) -> tuple[bytes, bool]:
    """In small pieces: the library sets no limit of its own to what comes out of one."""
    unpacker = library.ZstdDecompressor().decompressobj()
    parts, size = [], 0
    for at in range(0, len(body), _ZSTD_PIECE):
        parts.append(unpacker.decompress(body[at : at + _ZSTD_PIECE]))
        size += len(parts[-1])
        if unpacker.eof or size > SIZE_MAX:
            break
    return b"".join(parts), unpacker.eof and size <= SIZE_MAX
