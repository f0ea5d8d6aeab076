"""Reading one range of a CommitLog into record batches, and saying what is damaged in it.

A range begins at its first sound record and ends behind the last one that begins in it. There it is proved: a search
for the first record from `stop` on must find the very place where this walk stopped, for that is where the next range
begins. Bytes that are no record before the log's end raise `CorruptRecord`; with `skip_damage` they are told to `say`
instead, and reading goes on at the next sound record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow

from cometmq.columns.log_files import LogRange, View, first_record
from cometmq.columns.records import BATCH_SIZE, RecordColumns
from cometmq.columns.walk import Stop
from cometmq.errors import CorruptRecord

_STEP_SIZE = BATCH_SIZE  # bytes of the log between two looks at whether a batch is full

Say = Callable[[str], None]


def read_range(one: LogRange, columns: RecordColumns, *, skip_damage: bool, say: Say) -> Iterator[pyarrow.RecordBatch]:
    """The rows of one range, in the order of the log."""
    with View(one.path) as view:
        yield from _Reading(one, view, columns, skip_damage, say).batches()


class _Reading:
    def __init__(self, one: LogRange, view: View, columns: RecordColumns, skip_damage: bool, say: Say) -> None:
        self._one = one
        self._view = view
        self._columns = columns
        self._skip_damage = skip_damage
        self._say = say

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        one, columns = self._one, self._columns
        at = self._begin()
        while at is not None and at < one.stop:
            _, at, reason = columns.walk.add(self._view.data, at, min(at + _STEP_SIZE, one.stop), one.file_start)
            if columns.size >= BATCH_SIZE or reason == Stop.FULL:
                yield columns.batch()
            if reason == Stop.NO_RECORD:
                at = self._behind_damage(at)
            elif reason == Stop.NEXT_SEGMENT:
                self._prove(at)
                break
        else:
            self._prove(at)
        if columns.rows:
            yield columns.batch()

    def _begin(self) -> int | None:
        one = self._one
        return 0 if one.start == 0 else first_record(self._view, one.file_start, one.start)

    def _behind_damage(self, at: int) -> int | None:
        """Where reading can go on; None if nothing more is in this file."""
        one = self._one
        further = first_record(self._view, one.file_start, at + 1)
        size = (one.end if further is None else further) - at
        if not self._skip_damage:
            raise CorruptRecord(
                one.path,
                at,
                f"{size} bytes are no sound record: damaged, or cut short. Restore the file, or read on behind them "
                "with failOnDataLoss=false",
            )
        self._say(f"{one.path} at byte {at}: {size} bytes are no sound record, and were passed over")
        return further

    def _prove(self, at: int | None) -> None:
        """The next range finds its beginning by itself: it must be where this one stopped."""
        one = self._one
        if one.stop >= one.end:
            return
        # At a blank record this file is over: then nothing more may be found in it.
        expected = one.end if at is None or at < one.stop else at
        found = first_record(self._view, one.file_start, one.stop)
        if found is None or found > one.end:
            found = one.end
        if found > expected:
            self._behind_damage(expected)
        elif found < expected:
            raise CorruptRecord(
                one.path,
                one.stop,
                f"a record seems to begin at byte {found}, but not where those before it end: a body holds bytes that "
                "look like a record. Read each file in one piece, with splitFiles=false",
            )
