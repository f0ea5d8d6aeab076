"""Frames: how the stream of one connection is cut into commands.

    length 4 │ header form 1 · header length 3 │ header │ body
             └────────────── length counts these ────────────┘

`FrameDecoder.feed` takes whatever one read brought and returns the frames that are complete, as views
without the leading length. The limit is checked on the length itself, before anything is kept for it.

Mirrors: NettyDecoder.
"""

from __future__ import annotations

from typing import Final

from cometmq.errors import ProtocolError
from cometmq.wire.codes import FRAME_SIZE_MAX

LENGTH_SIZE: Final = 4
_FRAME_SIZE_MIN: Final = 4  # the header length field


class FrameDecoder:
    """Cuts one connection's bytes into frames; keeps at most one unfinished frame."""

    __slots__ = ("_kept", "_kept_size", "_needed", "_size_max")

    def __init__(self, size_max: int = FRAME_SIZE_MAX) -> None:
        self._size_max = size_max
        self._kept: list[bytes] = []
        self._kept_size = 0
        self._needed = LENGTH_SIZE

    @property
    def unfinished(self) -> bool:
        """Whether part of a frame has arrived and the rest has not."""
        return self._kept_size > 0

    def feed(self, data: bytes) -> list[memoryview]:
        """The frames that `data` completes. Raises `ProtocolError` on a length that cannot be right."""
        if self._kept_size:
            self._kept.append(data)
            self._kept_size += len(data)
            if self._kept_size < self._needed:
                return []
            data = b"".join(self._kept)
            self._kept.clear()
        return self._cut(data)

    def _cut(self, data: bytes) -> list[memoryview]:
        frames: list[memoryview] = []
        view = memoryview(data)
        at, end = 0, len(data)
        needed = LENGTH_SIZE
        while end - at >= LENGTH_SIZE:
            size = int.from_bytes(data[at : at + LENGTH_SIZE], "big", signed=True)
            needed = LENGTH_SIZE + size
            if size < _FRAME_SIZE_MIN or needed > self._size_max:
                raise ProtocolError(f"a frame of {needed} bytes: {2 * LENGTH_SIZE} to {self._size_max} are allowed")
            if end - at < needed:
                break
            frames.append(view[at + LENGTH_SIZE : at + needed])
            at += needed
            needed = LENGTH_SIZE
        self._kept_size = end - at
        if self._kept_size:
            self._kept.append(data[at:] if at else data)
        self._needed = needed
        return frames
