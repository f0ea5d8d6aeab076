"""Damage in the middle of the log, told from its end.

Where a walk finds no record the log has ended, or something was spoilt. What a power cut tore was never synced, and
behind it there may be sound records of the same write: they were promised to nobody, and are cut off. But a record
behind the place that the checkpoint knows to be synced was there, whole, with everything before it: then bytes in
between have changed since, and nothing may be cut.

The proof is time: store times never decrease, and `physic_ms` is that of something synced, so a record that is older
is synced too. One that is older than what stands before the damage is a leftover of a log that Java cut here.

Mirrors: nothing in Java, which cuts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from cometmq.store.commit_log import CommitLog
from cometmq.store.log_walk import Walk
from cometmq.wire.record import MAGIC_V1, MAGIC_V2

_MAGICS: Final = tuple(Struct(">I").pack(magic) for magic in (MAGIC_V1, MAGIC_V2))
_MAGIC_AT: Final = 4
_STEP: Final = 1 << 20


class Damage(NamedTuple):
    """Bytes `[start, end)` of the log that are no records, between some that are. `path` has `start` at byte `at`."""

    path: str
    at: int
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.path} is damaged at byte {self.at}: no sound message stands in the {self.end - self.start} bytes"


def read_only_text(damages: Sequence[Damage], root: str) -> str:
    """Why a store takes no messages, and what to do."""
    more = f" (and in {len(damages) - 1} more places)" if len(damages) > 1 else ""
    return (
        f"{damages[0]}, and the log goes on behind them{more}. Nothing was changed, and all other messages can be "
        f"read, but none are taken. Stop the broker, then `cometmq store repair {root}` shows what can be done"
    )


def next_synced(log: CommitLog, end: int, last_store_time_ms: int, physic_ms: int) -> int | None:
    """Where the next record stands that was synced before the log was damaged at `end`, if one does."""
    for offset, store_time_ms in sound_behind(log, end):
        if last_store_time_ms <= store_time_ms < physic_ms:
            return offset
    return None


def sound_behind(log: CommitLog, offset: int) -> Iterator[tuple[int, int]]:
    """Offset and store time of each record that stands anywhere behind `offset`; looks only where files hold data."""
    for start in sorted(start for start in log.segments if start + log.segment_size > offset):
        at = max(offset + 1 - start, 0)
        for piece_at, piece in log.data_pieces(start, at, _STEP, 2 * _MAGIC_AT):
            for place in _places(piece):
                for found in Walk(log.view_of(start), start, piece_at + place, check_crc=True).batch(1):
                    yield start + found[0], found[5]


def _places(piece: bytes) -> list[int]:
    """Where records may begin, for the magic of one stands there."""
    found: list[int] = []
    for magic in _MAGICS:
        at = piece.find(magic, _MAGIC_AT)
        while at >= 0:
            if at - _MAGIC_AT < _STEP:
                found.append(at - _MAGIC_AT)
            at = piece.find(magic, at + 1)
    return sorted(found)
