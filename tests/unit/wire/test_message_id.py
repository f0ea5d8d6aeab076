"""Message ids."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from cometmq.errors import ProtocolError
from cometmq.wire.message_id import UniqueIds, parse_offset_id

IP = bytes([10, 0, 0, 1])
JUNE = int(datetime(2024, 6, 1, tzinfo=UTC).timestamp()) * 1000


@pytest.mark.parametrize("text", ["", "xyz", "0" * 31, "0" * 33, "0" * 34, "0" * 55, "g" * 32, "é" * 32])
def test_not_an_offset_id(text: str) -> None:
    with pytest.raises(ProtocolError, match="32 or 56 hex digits"):
        parse_offset_id(text)


def ids() -> UniqueIds:
    return UniqueIds(IP, 0x1_2345, 0xABCD, UTC)


def test_unique_id_parts() -> None:
    made = ids()
    assert made.make(JUNE + 0x1234) == "0A00000123450000ABCD000012340000"
    assert made.make(JUNE + 0x1234) == "0A00000123450000ABCD000012340001"


def test_counter_wraps() -> None:
    made = ids()
    seen = [made.make(JUNE) for _ in range(0x1_0001)]
    assert len(set(seen)) == 0x1_0000
    assert seen[-1] == seen[0]


def test_a_new_month_begins_at_zero() -> None:
    made = ids()
    assert made.make(JUNE - 1)[20:28] == f"{31 * 86_400_000 - 1:08X}"
    assert made.make(JUNE)[20:28] == "00000000"


def test_december_ends() -> None:
    made = ids()
    january = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp()) * 1000
    assert made.make(january - 1)[20:28] == f"{31 * 86_400_000 - 1:08X}"
    assert made.make(january)[20:28] == "00000000"


def test_clock_set_back_a_little() -> None:
    made = ids()
    made.make(JUNE)
    assert made.make(JUNE - 999_999)[20:28] == "00000000"


def test_zone_of_the_producer() -> None:
    east = UniqueIds(IP, 1, 1, timezone(timedelta(hours=8)))
    assert east.make(JUNE)[20:28] == f"{8 * 3_600_000:08X}"


def test_v6() -> None:
    assert len(UniqueIds(bytes(16), 1, 1, UTC).make(JUNE)) == 56
