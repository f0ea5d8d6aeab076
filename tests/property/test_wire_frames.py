"""However the bytes of a connection are cut into reads, the same frames come out."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import ProtocolError
from cometmq.wire.frame import FrameDecoder

contents = st.lists(st.binary(min_size=4, max_size=60), max_size=6)


def stream(frames: list[bytes]) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


@given(contents)
def test_one_chunk(frames: list[bytes]) -> None:
    assert [bytes(frame) for frame in FrameDecoder().feed(stream(frames))] == frames


@given(contents)
def test_byte_by_byte(frames: list[bytes]) -> None:
    decoder = FrameDecoder()
    data = stream(frames)
    assert [bytes(frame) for at in range(len(data)) for frame in decoder.feed(data[at : at + 1])] == frames
    assert not decoder.unfinished


@given(contents, st.lists(st.integers(0, 400), max_size=8))
def test_any_cuts(frames: list[bytes], cuts: list[int]) -> None:
    data = stream(frames)
    at, found = 0, []
    put_aside: list[int] = []
    decoder = FrameDecoder(on_kept=put_aside.append)
    for cut in [*sorted(cuts), len(data)]:
        before, told = decoder.kept_size, sum(put_aside)
        found += [bytes(frame) for frame in decoder.feed(data[at:cut])]
        at = max(at, cut)
        assert decoder.kept_size <= before + sum(put_aside) - told
        assert decoder.kept_size == min(at, len(data)) - len(stream(found))
    assert found == frames


@given(contents, st.binary(min_size=4, max_size=20))
def test_unfinished_is_seen(frames: list[bytes], last: bytes) -> None:
    decoder = FrameDecoder()
    data = stream([*frames, last])
    for cut in range(len(stream(frames)) + 1, len(data)):
        decoder = FrameDecoder()
        assert [bytes(frame) for frame in decoder.feed(data[:cut])] == frames
        assert decoder.unfinished
        assert [bytes(frame) for frame in decoder.feed(data[cut:])] == [last]


@given(st.lists(st.binary(max_size=30), max_size=10))
def test_garbage(chunks: list[bytes]) -> None:
    decoder = FrameDecoder(size_max=1000)
    with suppress(ProtocolError):
        for chunk in chunks:
            list(decoder.feed(chunk))


@pytest.mark.parametrize("size", [-(2**31), -1, 0, 3, 16_777_213, 2**31 - 1])
def test_hostile_length(size: int) -> None:
    with pytest.raises(ProtocolError, match="a frame of"):
        list(FrameDecoder().feed(size.to_bytes(4, "big", signed=True)))


@given(contents)
def test_frames_before_a_hostile_length_come_out(frames: list[bytes]) -> None:
    decoding = FrameDecoder().feed(stream(frames) + b"\xff\xff\xff\xff")
    assert [bytes(next(decoding)) for _ in frames] == frames
    with pytest.raises(ProtocolError):
        next(decoding)


def test_the_limit_counts_the_length_itself() -> None:
    decoder = FrameDecoder()
    assert list(decoder.feed((16_777_212).to_bytes(4, "big"))) == []
    assert decoder.unfinished


def test_tiny_reads_cost_no_more_than_their_bytes() -> None:
    decoder = FrameDecoder()
    size = 30_000
    tracemalloc.start()
    for byte in size.to_bytes(4, "big") + bytes(size - 1):
        list(decoder.feed(bytes((byte,))))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 2 * size
    assert len(list(decoder.feed(b"!"))) == 1
