"""What the folder of a broker that is down can suffer: a torn tail, a part that is lost or spoilt, a broken table.

All of it can be made good from the log, or from the other copy of the table. The tail is torn as a power cut tears it:
what was sent last was on no disk yet, and neither was a checkpoint that knows of it. Garbage is such as the original
can tell: a queue's unit that begins with a positive number it believes, and a file of the index that ends before the
time of the checkpoint, and then it misses messages or keys.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from cometmq.wire.record import decode_record

BODY_AT: Final = 88  # of a record, for IPv4: nothing before it has a checksum
BLANK: Final = 0xCBD43194  # the magic of what fills a file up
STALE_SIZE: Final = 4_000
SECTOR: Final = 512

Spoil = Callable[[Path, Random], None]
Behind = Callable[[bytes, int, Random], bytes]
"""The file as it was, where it is cut, and what stands behind that then."""

PARTS: Final = {
    "queues": ("consumequeue", "batchconsumequeue"),
    "index": ("index",),
    "checkpoint": ("checkpoint",),
}
TABLES: Final = ("topics", "subscriptionGroup", "consumerOffset")


def end_of_log(store: Path) -> int:
    """Behind the last record."""
    end = 0
    for path in sorted((store / "commitlog").iterdir()):
        data, at = path.read_bytes(), 0
        while data[at : at + 4] != bytes(4) and int.from_bytes(data[at + 4 : at + 8]) != BLANK:
            at += decode_record(data, at).size
        if at:
            end = int(path.name) + at
    return end


def file_at(store: Path, offset: int) -> tuple[Path, int]:
    """The file of the log that has this offset, and where in it."""
    path = max(path for path in (store / "commitlog").iterdir() if int(path.name) <= offset)
    return path, offset - int(path.name)


def patch(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def tear(store: Path, end: int, chance: Random, behind: Behind) -> None:
    """Cut the log within the record at `end`, which is the first that was lost."""
    path, at = file_at(store, end)
    data = path.read_bytes()
    cut = at + chance.randrange(1, BODY_AT + len(decode_record(data, at).body))
    path.write_bytes((data[:cut] + behind(data, cut, chance)).ljust(len(data), b"\0")[: len(data)])
    for later in (store / "commitlog").iterdir():
        if later.name > path.name:
            later.unlink()


def zeros(data: bytes, cut: int, chance: Random) -> bytes:
    return b""


def garbage(data: bytes, cut: int, chance: Random) -> bytes:
    return chance.randbytes(STALE_SIZE)


def old_records(data: bytes, cut: int, chance: Random) -> bytes:
    """As in a file that was used before: whole messages, of other places."""
    return data[:STALE_SIZE]


def later_records(data: bytes, cut: int, chance: Random) -> bytes:
    """But for one sector all got to the disk."""
    return bytes(SECTOR) + data[cut + SECTOR :]


TEARS: Final[dict[str, Behind]] = {
    "zeros": zeros,
    "garbage": garbage,
    "old records": old_records,
    "later records": later_records,
}


def _files(store: Path, names: tuple[str, ...]) -> list[Path]:
    return [path for name in names for path in [store / name, *(store / name).rglob("*")] if path.is_file()]


def _lose(*names: str) -> Spoil:
    def spoil(store: Path, chance: Random) -> None:
        for name in names:
            shutil.rmtree(store / name, ignore_errors=True)
            (store / name).unlink(missing_ok=True)  # CometMQ may not have needed it yet

    return spoil


def _fill(fill: Callable[[Random, int], bytes], *names: str) -> Spoil:
    def spoil(store: Path, chance: Random) -> None:
        for path in _files(store, names):
            path.write_bytes(fill(chance, path.stat().st_size))

    return spoil


def _break(table: str) -> Spoil:
    def spoil(store: Path, chance: Random) -> None:
        path = store / "config" / f"{table}.json"
        shutil.copy(path, path.with_name(f"{path.name}.bak"))  # as after a save that changed nothing
        data = path.read_bytes()
        path.write_bytes(chance.choice([b"", bytes(len(data)), data[: len(data) // 2], chance.randbytes(len(data))]))

    return spoil


SPOILS: Final[dict[str, Spoil]] = {
    **{f"{part} lost": _lose(*names) for part, names in PARTS.items()},
    **{f"{part} of zeros": _fill(lambda chance, size: bytes(size), *names) for part, names in PARTS.items()},
    "queues of garbage": _fill(lambda chance, size: b"\xff" + chance.randbytes(size - 1), *PARTS["queues"]),
    "index of garbage": _fill(lambda chance, size: b"\x7f" * 16 + chance.randbytes(size - 16), *PARTS["index"]),
    "checkpoint of garbage": _fill(Random.randbytes, *PARTS["checkpoint"]),
    **{f"{table} broken": _break(table) for table in TABLES},
}
