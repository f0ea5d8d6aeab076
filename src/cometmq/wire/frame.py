"""Frames: how the stream of one connection is cut into commands.

    length 4 │ header form 1 · header length 3 │ header │ body
             └────────────── length counts these ────────────┘

`FrameDecoder.feed` takes whatever one read brought and yields the frames that are complete, as views
without the leading length. The limit is checked on the length itself, before anything is kept for it.
Frames are yielded, not listed, so that those before a hostile length are served however the bytes were cut.
Whoever has many decoders is told (`on_kept`) how many bytes one puts aside, once for each read that leaves some.

Mirrors: NettyDecoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from cometmq.errors import ProtocolError
from cometmq.wire.codes import FRAME_SIZE_MAX

LENGTH_SIZE: Final = 4
_LENGTH: Final = Struct(">i")
_FRAME_SIZE_MIN: Final = 4  # the header length field

Skip = Callable[[memoryview, int], int]  # bytes and where a frame begins; returns where the next begins that it left


class FrameDecoder:
    """Cuts one connection's bytes into frames; keeps at most one unfinished frame."""

    __slots__ = ("_kept", "_needed", "_on_kept", "_size_max", "begun_count")

    def __init__(self, size_max: int = FRAME_SIZE_MAX, on_kept: Callable[[int], None] | None = None) -> None:
        self._size_max = size_max
        self._on_kept = on_kept
        self._kept = bytearray()
        self._needed = LENGTH_SIZE
        self.begun_count = 0  # frames that did not come in one piece: tells one from the next

    @property
    def unfinished(self) -> int:
        """Size of the frame of which a part has arrived and the rest has not; 0 if there is none."""
        return self._needed if self._kept else 0

    @property
    def kept_size(self) -> int:
        """How many bytes of it have arrived."""
        return len(self._kept)

    def drop(self) -> None:
        """Let go of it: the rest will not come."""
        self._kept = bytearray()

    def feed(self, data: bytes, skip: Skip | None = None) -> Iterator[memoryview]:
        """Yield the frames that `data` completes, then raise `ProtocolError` if a length cannot be right.

        `skip` may take frames before they are cut: it is shown what is there from each frame on.
        """
        view = memoryview(data)
        if self._kept:
            self._kept += data
            if len(self._kept) < self._needed:
                if self._on_kept is not None:
                    self._on_kept(len(data))
                return
            view = memoryview(self._kept).toreadonly()
            self._kept = bytearray()  # the frames keep the old one
        at, end = 0, len(view)
        needed = LENGTH_SIZE
        if skip is not None:
            at = skip(view, at)
        while end - at >= LENGTH_SIZE:
            (size,) = _LENGTH.unpack_from(view, at)
            needed = LENGTH_SIZE + size
            if size < _FRAME_SIZE_MIN or needed > self._size_max:
                raise ProtocolError(f"a frame of {needed} bytes: {2 * LENGTH_SIZE} to {self._size_max} are allowed")
            if end - at < needed:
                break
            yield view[at + LENGTH_SIZE : at + needed]
            at += needed
            needed = LENGTH_SIZE
            if skip is not None and at < end:
                at = skip(view, at)
        if at < end:
            self._kept += view[at:]
            self._needed = needed
            self.begun_count += 1
            if self._on_kept is not None:
                self._on_kept(end - at)
