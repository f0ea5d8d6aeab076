"""Parquet files by date, written in two steps, so that each batch is there once.

    ROOT/.writing/QUERY-BATCH-…            what tasks write; nobody reads it
    ROOT/date=2026-11-16/QUERY-BATCH-N.parquet    what is committed, N by N in the order of the tasks

Spark replays a batch whose commit it does not know of, with the same rows in perhaps other files. So a commit first
removes what an earlier try of the same batch put in place, then moves its own files there. A reader that comes in the
middle sees the beginning of every queue's rows, never a gap: files are moved in the order of the tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import pyarrow
import pyarrow.compute
import pyarrow.parquet

from cometmq.spark.durable import make_folder, sync

WRITING: Final = ".writing"
DATES_MAX: Final = 16  # files that a task has open at once


class Written(NamedTuple):
    """A file that waits for its commit, and the date of its rows."""

    path: str
    date: str


def write_files(root: Path, name: str, batches: Iterable[pyarrow.RecordBatch], column: str) -> list[Written]:
    """Write rows to files of one date each; they are on the disk when this returns."""
    folder = root / WRITING
    folder.mkdir(parents=True, exist_ok=True)
    writers: dict[str, tuple[Path, pyarrow.parquet.ParquetWriter]] = {}
    done: list[Written] = []

    def close(date: str) -> None:
        path, writer = writers.pop(date)
        writer.close()
        sync(path)
        done.append(Written(str(path), date))

    for batch in batches:
        dates = pyarrow.compute.cast(batch[column], pyarrow.date32())
        for day in pyarrow.compute.unique(dates):
            rows = batch.filter(pyarrow.compute.equal(dates, day)) if day.is_valid else batch.filter(dates.is_null())
            date = str(day.as_py()) if day.is_valid else "__HIVE_DEFAULT_PARTITION__"
            if date not in writers:
                if len(writers) >= DATES_MAX:
                    close(next(iter(writers)))
                path = folder / f"{name}-{uuid4().hex}"
                writers[date] = path, pyarrow.parquet.ParquetWriter(path, batch.schema, compression="zstd")
            writers[date][1].write_batch(rows)
    for date in list(writers):
        close(date)
    return done


def put_in_place(root: Path, name: str, written: Sequence[Written]) -> None:
    """Commit: exactly these files are the batch `name`."""
    forget(root, name)
    for number, file in enumerate(written):
        folder = root / f"date={file.date}"
        make_folder(folder)
        Path(file.path).rename(folder / f"{name}-{number:05d}.parquet")
    for folder in {root / f"date={file.date}" for file in written} | {root}:
        sync(folder)
    for left in (root / WRITING).glob(f"{name}-*"):  # of tasks that were lost
        left.unlink(missing_ok=True)


def forget(root: Path, name: str) -> None:
    """Remove what an earlier try of this batch put in place."""
    for path in root.glob(f"date=*/{name}-*.parquet"):
        path.unlink(missing_ok=True)


def discard(written: Iterable[Written]) -> None:
    for file in written:
        Path(file.path).unlink(missing_ok=True)
