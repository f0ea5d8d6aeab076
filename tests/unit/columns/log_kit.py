"""A log made by hand: small files, with a blank record at the end of each but the last."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.unit.columns.records import make_record

from cometmq.columns import RecordColumns
from cometmq.columns.log_files import LogRange, find_end, find_files, share_out
from cometmq.columns.log_reading import read_range
from cometmq.columns.twins import make_walk
from cometmq.wire.record import BLANK_SIZE, encode_blank


def write_log(store: Path, bodies: Sequence[bytes], *, file_size: int = 2000, spare: bool = False) -> list[Path]:
    """Records with these bodies, numbered by their offsets; returns the files."""
    folder = store / "commitlog"
    folder.mkdir(parents=True)
    files = [bytearray()]
    for offset, body in enumerate(bodies):
        size = len(make_record(body=body))
        if len(files[-1]) + size + BLANK_SIZE > file_size:
            files[-1] += encode_blank(file_size - len(files[-1]))
            files.append(bytearray())
        position = (len(files) - 1) * file_size + len(files[-1])
        files[-1] += make_record(body=body, offset=offset, position=position, store_ms=1000 + offset)
    if spare:
        files.append(bytearray())
    paths = []
    for number, data in enumerate(files):
        path = folder / f"{number * file_size:020d}"
        path.write_bytes(data.ljust(file_size, b"\0"))
        paths.append(path)
    return paths


def read_log(
    store: Path, *, range_size: int = 500, skip_damage: bool = False, pure: bool = False
) -> tuple[list[int], list[str]]:
    """The offsets that are read, range by range, and what was said."""
    files = find_files(str(store))
    said: list[str] = []
    offsets: list[int] = []
    for one in share_out(files, find_end(files), range_size):
        offsets += offsets_of(one, said, skip_damage=skip_damage, pure=pure)
    return offsets, said


def offsets_of(one: LogRange, said: list[str], *, skip_damage: bool = False, pure: bool = False) -> list[int]:
    columns = RecordColumns(["offset"], None, make_walk(["offset"], check_crc=True, pure=pure))
    batches = read_range(one, columns, skip_damage=skip_damage, say=said.append)
    return [offset for batch in batches for offset in batch["offset"].to_pylist()]
