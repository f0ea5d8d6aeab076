"""The stream between master and slave: round trips, cuts at every byte, chunks of any size, and garbage."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cometmq.errors import ProtocolError
from cometmq.wire.ha import (
    TRANSFER_SIZE_MAX,
    Hello,
    ReportDecoder,
    TransferDecoder,
    encode_hello,
    encode_report,
    encode_transfer_head,
)

offsets = st.integers(0, (1 << 63) - 1)
transfers = st.lists(st.tuples(offsets, st.binary(max_size=64)), max_size=6)
hellos = st.builds(Hello, st.integers(0, 0xFFFFFFFF), st.booleans())


def chunks(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(places)]


def heard(decoder: TransferDecoder, pieces: list[bytes]) -> list[tuple[int, bytes]]:
    return [(offset, bytes(part)) for piece in pieces for offset, part in decoder.feed(piece)]


def encoded(sent: list[tuple[int, bytes]]) -> bytes:
    return b"".join(encode_transfer_head(offset, len(part)) + part for offset, part in sent)


@given(transfers, st.lists(st.integers(0, 500), max_size=12))
def test_transfers_arrive_whole_however_they_are_cut_into_chunks(
    sent: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    assert heard(TransferDecoder(), chunks(encoded(sent), cuts)) == sent


@given(transfers)
def test_a_stream_cut_at_any_byte_gives_only_whole_transfers(sent: list[tuple[int, bytes]]) -> None:
    data = encoded(sent)
    ends = [len(encoded(sent[:count])) for count in range(len(sent) + 1)]
    for cut in range(len(data) + 1):
        whole = max(count for count, end in enumerate(ends) if end <= cut)
        assert heard(TransferDecoder(), [data[:cut]]) == sent[:whole]


@given(transfers, offsets, st.one_of(st.integers(-(1 << 31), -1), st.integers(TRANSFER_SIZE_MAX + 1, (1 << 31) - 1)))
def test_a_length_that_cannot_be_ends_the_stream_behind_what_was_sound(
    sent: list[tuple[int, bytes]], offset: int, size: int
) -> None:
    decoder, found = TransferDecoder(), []
    with pytest.raises(ProtocolError):
        for start, part in decoder.feed(encoded(sent) + encode_transfer_head(offset, size)):
            found.append((start, bytes(part)))
    assert found == sent


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_garbage_is_refused_or_waited_on_and_nothing_else(data: bytes, cuts: list[int]) -> None:
    for decoder in (TransferDecoder(), ReportDecoder()):
        try:
            for piece in chunks(data, cuts):
                list(decoder.feed(piece))
        except ProtocolError:
            pass


@given(st.one_of(st.none(), hellos), st.lists(offsets, max_size=6), st.lists(st.integers(0, 80), max_size=8))
@example(Hello(0xFFFFFFFF, from_first=True), [(1 << 63) - 1], [1, 2, 3])
def test_reports_are_heard_in_order(hello: Hello | None, reported: list[int], cuts: list[int]) -> None:
    said: list[Hello | int] = [*([] if hello is None else [hello]), *reported]
    data = b"".join(encode_hello(one) if isinstance(one, Hello) else encode_report(one) for one in said)
    decoder = ReportDecoder()
    assert [word for piece in chunks(data, cuts) for word in decoder.feed(piece)] == said


@given(offsets, hellos)
def test_only_the_first_word_may_be_a_hello(offset: int, hello: Hello) -> None:
    with pytest.raises(ProtocolError):
        ReportDecoder().feed(encode_report(offset) + encode_hello(hello))
