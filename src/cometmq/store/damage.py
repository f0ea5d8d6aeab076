"""Is what stands behind the log's end a torn write, or is the log damaged?

A walk ends where it finds no record. What a power cut tore was never synced: it was promised to nobody, and what stands
behind it, which may be sound, is cut off. But what was synced was there, whole, with everything before it: if it is not
there now, bytes have changed or files are gone, and nothing may be cut. How far the log was synced is told by

    the checkpoint        an offset, `flushed`, where nobody but CometMQ was here since it was written
    its time              store times never decrease, and `physic_ms` is that of something synced: older is synced too
    the queues            after a clean stop, they name nothing that was not on the disk; asked if there is no offset
    a later file          if there is no checkpoint: its makers sync a file before they fill the next

A record that is older than what stands before the hole is a leftover of a log that Java cut here.

Mirrors: nothing in Java, which cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from cometmq.store.checkpoint import Checkpoint
from cometmq.store.commit_log import CommitLog
from cometmq.store.log_walk import Walk
from cometmq.store.segment import segment_path
from cometmq.wire.record import MAGIC_V1, MAGIC_V2

_MAGICS: Final = tuple(Struct(">I").pack(magic) for magic in (MAGIC_V1, MAGIC_V2))
_MAGIC_AT: Final = 4
_STEP: Final = 1 << 20


class Damage(NamedTuple):
    """Bytes `[start, end)` of the log that are no records, though there were some. `path` has `start` at byte `at`."""

    path: str
    at: int
    start: int
    end: int
    proof: str = "and the log goes on behind them"
    missing: bool = False  # the file

    def __str__(self) -> str:
        what = "is missing" if self.missing else f"is damaged at byte {self.at}"
        return f"{self.path} {what}: no sound message stands in the {self.end - self.start:,} bytes, {self.proof}"


def read_only_text(damages: Sequence[Damage], root: str) -> str:
    """Why a store takes no messages, and what to do."""
    more = f" (and in {len(damages) - 1} more places)" if len(damages) > 1 else ""
    return (
        f"{damages[0]}{more}. The log was not changed, and all other messages can be read, but none are taken. Stop "
        f"the broker, then `cometmq store repair {root}` shows what can be done"
    )


class Evidence:
    """What is known of how far the log was on the disk.

    `named_behind` says how far the messages reach that the queues name at or behind an offset, and 0 if they name none.
    """

    def __init__(
        self, log: CommitLog, checkpoint: Checkpoint, *, clean: bool, named_behind: Callable[[int], int]
    ) -> None:
        self._log = log
        self._checkpoint = checkpoint
        self._clean = clean
        self._named_behind = named_behind

    def damage_at(self, end: int, last_store_time_ms: int) -> Damage | None:
        """What is damaged where a walk ended, behind a record of this time; None: the log ends there."""
        log, checkpoint = self._log, self._checkpoint
        synced, proof = checkpoint.flushed, "and the checkpoint knows that messages were synced there"
        if self._clean and not checkpoint.vouches:
            synced, proof = self._named_behind(end), "and the queues name messages there"
        start = log.segment_start(end)
        damage = Damage(segment_path(log.folder, start), end - start, end, synced, proof, start not in log.segments)
        next_file = log.segment_end(end)
        first = None  # what stands before something that was synced was synced
        for offset, store_time_ms in sound_behind(log, end):
            if offset >= synced and store_time_ms < last_store_time_ms:
                continue
            first = offset if first is None else first
            of_later_file = checkpoint.says_nothing and offset >= next_file
            if offset < synced or store_time_ms < checkpoint.proven_ms or of_later_file:
                return Damage(damage.path, damage.at, end, first, missing=damage.missing)
        return damage if synced > end else None

    def lost_log(self) -> str | None:
        """If there is no file of the log, but there were some: a sentence that says so."""
        checkpoint = self._checkpoint
        if self._log.segments:
            return None
        if checkpoint.vouches:
            known, by = checkpoint.flushed, "the checkpoint"
        elif checkpoint.proven_ms or checkpoint.logics_physical_offset > 0:
            known, by = 1, "the checkpoint"
        else:
            known, by = self._named_behind(0) if self._clean or checkpoint.says_nothing else 0, "consumequeue"
        return f"{self._log.folder} has no file of the log, but {by} speaks of messages" if known else None


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
