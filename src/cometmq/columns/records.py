"""Arrow record batches from the bytes of pull answers and log segments.

A `RecordColumns` is fed until `size` says it is worth a batch; then `batch` lays Arrow arrays over what the walk
gathered, without a copy. Which twin walks is chosen in `twins`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow
import pyarrow.compute

from cometmq.columns.bodies import Unpacker
from cometmq.columns.layout import TYPES, schema
from cometmq.columns.twins import Walks, make_walk
from cometmq.columns.walk import LONG_MAX, LONG_MIN, Buffers, Stop
from cometmq.errors import CorruptRecord, InvalidArgument
from cometmq.wire.record import Buffer, decode_record

BATCH_SIZE: Final = 8 << 20  # bytes gathered that are worth a batch


class RecordColumns:
    """Whole records in, record batches out."""

    def __init__(
        self, columns: Sequence[str], broker: str | None, walk: Walks | None = None, unpack: Unpacker | None = None
    ) -> None:
        """Batches have these columns in this order. `broker` is what the records do not tell; None if nobody knows.

        `unpack` is that of the walk, where it may leave rows without a body.
        """
        self.schema = schema(columns)
        self._columns = tuple(columns)
        self._broker = broker
        self._unpack = unpack
        self.walk = make_walk(columns, unpack=unpack) if walk is None else walk

    @property
    def rows(self) -> int:
        """Rows that wait for `batch`."""
        return self.walk.rows

    @property
    def size(self) -> int:
        """About how many bytes they take; `BATCH_SIZE` is a good measure to take them at."""
        return self.walk.size

    def add(self, data: Buffer, start_offset: int | None = None, end_offset: int | None = None) -> int:
        """All records of a pull answer; those with a queue offset in [start, end) become rows. Returns how many.

        Bytes that are no record raise `CorruptRecord`; what stood before them has been added.
        """
        start = LONG_MIN if start_offset is None else start_offset
        end = LONG_MAX if end_offset is None else end_offset
        count, at, reason = self.walk.add(data, 0, len(data), -1, start, end)
        if reason == Stop.FULL:
            raise InvalidArgument("a record batch holds 2 GiB at most: take it with batch() before adding more")
        if reason != Stop.REACHED:
            decode_record(data, at)  # which says what is wrong with it
            raise CorruptRecord("", at, "not a sound record")
        return count

    def batch(self) -> pyarrow.RecordBatch:
        """Everything added since the last one."""
        rows, taken = self.walk.take()
        arrays = [
            pyarrow.repeat(pyarrow.scalar(self._broker, pyarrow.string()), rows)
            if name == "broker"
            else _array(TYPES[name], rows, taken[name])
            for name in self._columns
        ]
        spoilt = self._unpack.take(rows) if self._unpack is not None else []
        if spoilt:
            at = self._columns.index("body")
            sound = pyarrow.array([row not in spoilt for row in range(rows)])
            arrays[at] = pyarrow.compute.if_else(sound, arrays[at], None)
        if not arrays:  # a table without columns still has rows, and only this way may a batch say so
            return pyarrow.RecordBatch.from_struct_array(pyarrow.array([{}] * rows, pyarrow.struct([])))
        return pyarrow.RecordBatch.from_arrays(arrays, schema=self.schema)


def _array(kind: pyarrow.DataType, rows: int, buffers: Buffers) -> pyarrow.Array:
    laid: list[Any] = [None if buffer is None else pyarrow.py_buffer(buffer) for buffer in buffers]
    if not pyarrow.types.is_map(kind):
        return pyarrow.Array.from_buffers(kind, rows, laid)
    offsets, name_offsets, names, value_offsets, values = laid
    pairs = name_offsets.size // 4 - 1
    struct = pyarrow.StructArray.from_arrays(
        [
            pyarrow.Array.from_buffers(pyarrow.string(), pairs, [None, name_offsets, names]),
            pyarrow.Array.from_buffers(pyarrow.string(), pairs, [None, value_offsets, values]),
        ],
        fields=[kind.key_field, kind.item_field],
    )
    return pyarrow.Array.from_buffers(kind, rows, [None, offsets], children=[struct])
