"""Places of half messages: what is packed comes back, and nothing else is read."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import ProtocolError
from cometmq.wire.bodies.positions import Position, PositionsPacker, pack_positions, unpack_positions

OFFSETS = st.integers(0, (1 << 63) - 1)
PLACES = st.lists(st.builds(Position, OFFSETS, OFFSETS), max_size=20)


@given(PLACES)
def test_they_come_back(places: list[Position]) -> None:
    data = pack_positions(places)
    assert unpack_positions(data, 20) == places
    assert unpack_positions(memoryview(data)) == places


@given(st.lists(PLACES, max_size=4))
def test_packed_in_parts_they_are_the_same(parts: list[list[Position]]) -> None:
    packer = PositionsPacker()
    for part in parts:
        packer.add(part)
    places = [one for part in parts for one in part]
    assert packer.packed() == packer.packed() == pack_positions(places)


@given(PLACES)
def test_cut_at_every_byte(places: list[Position]) -> None:
    data = pack_positions(places)
    for size in range(len(data)):
        with pytest.raises(ProtocolError):
            unpack_positions(data[:size])
    with pytest.raises(ProtocolError):
        unpack_positions(data + b"\0")


@given(st.binary(max_size=60))
def test_anything_else_is_refused_or_read(data: bytes) -> None:
    with suppress(ProtocolError):
        assert all(one.queue_offset >= 0 and one.physical_offset >= 0 for one in unpack_positions(data, 100))


def test_neighbours_are_small_and_too_many_are_refused() -> None:
    places = [Position(number, number * 400) for number in range(1000)]
    assert len(pack_positions(places)) < 4 * 1000
    with pytest.raises(ProtocolError):
        unpack_positions(pack_positions(places), 999)
    with pytest.raises(ProtocolError):
        unpack_positions(b"\xff\xff\xff\xff\x0f")  # a count that nothing follows
