"""Batch bodies whose inner lengths lie: the answers are those of the original (SYSTEM_ERROR, connection kept)."""

from __future__ import annotations

from struct import pack

import pytest

from cometmq.errors import MessageRefused, RequestRefused
from cometmq.wire.batch import encode_batch, split_batch


def sub_record(
    body: bytes, properties: bytes = b"", *, total: int = 0, body_size: int | None = None, size: int | None = None
) -> bytes:
    body_size = len(body) if body_size is None else body_size
    size = len(properties) if size is None else size
    return pack(">iiiii", total, 7, 9, 0, body_size) + body + pack(">h", size) + properties


@pytest.mark.parametrize("total", [-1, 0, 99, 2**31 - 1])
def test_total_size_magic_and_crc_are_not_read(total: int) -> None:
    ((_, body, data),) = split_batch(sub_record(b"one", b"A\x01b", total=total))
    assert (bytes(body), data) == (b"one", b"A\x01b")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        sub_record(b"one", body_size=1000),
        sub_record(b"one", body_size=4),
        sub_record(b"one", body_size=-1),
        sub_record(b"one", body_size=-(2**31)),
        sub_record(b"one", body_size=2**31 - 1),
        sub_record(b"one", size=1),
        sub_record(b"one", size=-1),
        sub_record(b"one", size=32_767),
        sub_record(b"one") + sub_record(b"two", body_size=77),
        sub_record(b"one") + b"\0\0",
    ],
)
def test_lies_are_refused(data: bytes) -> None:
    with pytest.raises(RequestRefused) as refused:
        split_batch(data)
    assert refused.value.response == "SYSTEM_ERROR"


def test_the_sentence_names_the_message() -> None:
    with pytest.raises(RequestRefused, match="message 1 of the batch claims a body of 77 bytes"):
        split_batch(sub_record(b"one") + sub_record(b"two", body_size=77))


def test_bodies_are_not_copied() -> None:
    data = encode_batch([(0, b"x" * 1000, b"")])
    ((_, body, _),) = split_batch(data)
    assert isinstance(body, memoryview)
    assert body.obj is data


def test_properties_over_the_limit() -> None:
    with pytest.raises(MessageRefused):
        encode_batch([(0, b"", b"x" * 32_768)])
