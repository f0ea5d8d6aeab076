"""What a decided batch consists of, as it is written down, and what half messages say about themselves.

A manifest is a line of JSON, which names the winning attempts and how many places of theirs follow for each broker, and
behind it the places, packed (`wire/bodies/positions.py`) and covered by a CRC. Its *head* is the same without attempts:
what is kept of a batch that is long delivered, to know it again by the number of its rows.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, Self

import orjson

from cometmq.wire.bodies.positions import Position, each_position

VERSION: Final = 2
NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one task wrote: its half messages by broker, in the order of its rows."""

    partition: int
    name: str
    topics: tuple[str, ...]
    places: dict[str, bytes]  # packed

    def positions(self) -> Iterator[tuple[str, Iterator[Position]]]:
        for broker, packed in self.places.items():
            yield broker, each_position(packed)

    def chunks(self, size: int) -> Iterator[tuple[str, list[Position]]]:
        """The same, so many at a time."""
        for broker, positions in self.positions():
            while chunk := list(islice(positions, size)):
                yield broker, chunk


@dataclass(frozen=True, slots=True)
class Manifest:
    """A batch that is decided."""

    query: str
    batch: int
    group: str
    rows: int
    attempts: tuple[Attempt, ...]

    @property
    def head(self) -> Manifest:
        return replace(self, attempts=())

    def encode(self) -> bytes:
        parts = [
            {
                "partition": one.partition,
                "attempt": one.name,
                "topics": one.topics,
                "sizes": {broker: len(packed) for broker, packed in one.places.items()},
            }
            for one in self.attempts
        ]
        data = b"".join(packed for one in self.attempts for packed in one.places.values())
        head = {
            "version": VERSION,
            "query": self.query,
            "batch": self.batch,
            "group": self.group,
            "rows": self.rows,
            "parts": parts,
        }
        head["crc"] = zlib.crc32(orjson.dumps(head) + data)
        return orjson.dumps(head) + b"\n" + data

    @classmethod
    def decode(cls, text: bytes) -> Self:
        """Read one; raises `ValueError` with what is wrong."""
        line, newline, data = text.partition(b"\n")
        if not newline:
            raise ValueError("its first line is cut")
        head: dict[str, Any] = orjson.loads(line)
        crc = head.pop("crc")
        if head["version"] != VERSION:
            raise ValueError(f"it is of version {head['version']}; this program knows {VERSION}")
        if zlib.crc32(orjson.dumps(head) + data) != crc:
            raise ValueError("its checksum is wrong")
        attempts, at = [], 0
        for part in head["parts"]:
            places = {}
            for broker, size in part["sizes"].items():
                places[broker] = data[at : at + size]
                at += size
            attempts.append(Attempt(part["partition"], part["attempt"], tuple(part["topics"]), places))
        return cls(head["query"], head["batch"], head["group"], head["rows"], tuple(attempts))

    def mark(self, attempt: Attempt) -> str:
        return Mark(self.query, self.batch, attempt.partition, attempt.name).text

    @property
    def topics(self) -> list[str]:
        return sorted({topic for one in self.attempts for topic in one.topics})


@dataclass(frozen=True, slots=True)
class Mark:
    """What a half message says about itself: who wrote it, as part of what."""

    query: str
    batch: int
    partition: int
    attempt: str

    @property
    def text(self) -> str:
        return f"{self.query} {self.batch} {self.partition} {self.attempt}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        words = text.split(" ")
        if len(words) != 4 or NAME.fullmatch(words[0]) is None or not (words[1].isdecimal() and words[2].isdecimal()):
            return None  # no sink wrote it; and a query is the name of a folder
        return cls(words[0], int(words[1]), int(words[2]), words[3])
