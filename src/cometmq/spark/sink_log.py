"""The sink's log: which batches are decided, and of which half messages they consist. A folder that outlives drivers.

    sinkLog/id                                  names the producer group that is asked how things ended
    sinkLog/<query>/00000000000000000012.manifest   batch 12 is decided: exactly these half messages are delivered
    sinkLog/<query>/00000000000000000012.done       and they were, all of them

A manifest is a line of JSON, which names the winning attempts and how many places of theirs follow for each broker, and
behind it the places, packed (`wire/bodies/positions.py`) and covered by a CRC.

Invariants: a manifest is whole, on the disk, and never replaced: it is written aside, synced, and *linked* to its name,
which fails if somebody else was first; then theirs counts. Nothing is ended before its manifest is there. Batches of a
query are decided in their order. Manifests are removed only when they are done, and the last `KEPT_COUNT` never.
"""

from __future__ import annotations

import os
import re
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import orjson

from cometmq.errors import CometError, InvalidArgument, ProtocolError
from cometmq.spark.durable import sync
from cometmq.wire.bodies.positions import Position, pack_positions, unpack_positions

VERSION: Final = 1
KEPT_COUNT: Final = 10
READ_MAX: Final = 4  # manifests whose places are kept in memory
NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_MANIFEST: Final = ".manifest"
_DONE: Final = ".done"


class SinkLogDamaged(CometError):
    """A file of the sink's log cannot be read; nothing may be decided without it."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} of the sink's log is damaged: {why}. It says which messages of its batch are delivered; bring it "
            "back from a copy. Without it nobody can tell, and a new checkpoint and a new sinkLog are needed"
        )


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one task wrote: its half messages by broker, in the order of its rows."""

    partition: int
    name: str
    topics: tuple[str, ...]
    places: dict[str, bytes]  # packed

    def positions(self) -> Iterator[tuple[str, list[Position]]]:
        for broker, packed in self.places.items():
            yield broker, unpack_positions(packed)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A batch that is decided."""

    query: str
    batch: int
    group: str
    attempts: tuple[Attempt, ...]

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
        head = {"version": VERSION, "query": self.query, "batch": self.batch, "group": self.group, "parts": parts}
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
        return cls(head["query"], head["batch"], head["group"], tuple(attempts))

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


class Verdict(Enum):
    """What the log says of one half message."""

    LISTED = auto()
    UNLISTED = auto()
    RUNNING = auto()  # its batch is not decided yet, or nothing is known of it


class SinkLog:
    """The folder. Files are read when they are asked about: other processes write, too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[tuple[str, int], dict[str, list[int]]] = {}

    @classmethod
    def at(cls, where: str) -> Self:
        """The log at a path or file: address, made if it is not there."""
        parts = urlsplit(where)
        if parts.scheme not in ("", "file") or (parts.scheme == "file" and parts.netloc not in ("", "localhost")):
            raise InvalidArgument(
                f"the option sinkLog is {where!r}; a path that the driver reaches as a file is needed (a local disk, "
                "or a mounted file system with hard links): a manifest must be on the disk, and must never be replaced"
            )
        folder = Path(unquote(parts.path) if parts.scheme == "file" else where)
        if not folder.is_absolute():
            raise InvalidArgument(f"the option sinkLog is {where!r}; an absolute path is needed: drivers come and go")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            sync(folder.parent)
        except OSError as fault:
            raise InvalidArgument(f"the folder {folder} (sinkLog) cannot be made: {fault}") from None
        return cls(folder)

    @property
    def id(self) -> str:
        """The log's own name, which it was given when it was first used."""
        path = self.folder / "id"
        if not path.exists():
            self._put(path, uuid4().hex.encode())
        return path.read_text(encoding="ascii")

    # --- deciding

    def decide(self, manifest: Manifest) -> Manifest:
        """Decide a batch, durably; returns what counts, which is another's if it was decided before."""
        path = self._path(manifest.query, manifest.batch, _MANIFEST)
        if not path.parent.exists():
            path.parent.mkdir(exist_ok=True)
            sync(self.folder)
        if self._put(path, manifest.encode()):
            return manifest
        found = self.find(manifest.query, manifest.batch)
        assert found is not None
        return found

    def _put(self, path: Path, data: bytes) -> bool:
        """Write a file that was not there; False, and nothing done, if it is."""
        aside = path.with_name(f".{path.name}.{uuid4().hex}")
        try:
            with open(aside, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(aside, path)
            except FileExistsError:
                return False
        finally:
            aside.unlink(missing_ok=True)
            sync(path.parent)
        return True

    def finished(self, manifest: Manifest) -> None:
        """All of it is delivered."""
        self._put(self._path(manifest.query, manifest.batch, _DONE), b"")
        self._tidy(manifest.query)

    def is_finished(self, manifest: Manifest) -> bool:
        return self._path(manifest.query, manifest.batch, _DONE).exists()

    def _tidy(self, query: str) -> None:
        for batch in self._batches(query, _MANIFEST)[:-KEPT_COUNT]:
            if self._path(query, batch, _DONE).exists():
                self._path(query, batch, _MANIFEST).unlink(missing_ok=True)
                self._path(query, batch, _DONE).unlink(missing_ok=True)

    # --- asking

    def find(self, query: str, batch: int) -> Manifest | None:
        path = self._path(query, batch, _MANIFEST)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            found = Manifest.decode(data)
            for attempt in found.attempts:
                for _ in attempt.positions():
                    pass
        except (ValueError, KeyError, TypeError, ProtocolError) as fault:
            raise SinkLogDamaged(path, str(fault)) from None
        if (found.query, found.batch) != (query, batch):
            raise SinkLogDamaged(path, f"it is about batch {found.batch} of {found.query}")
        return found

    def listed(self) -> dict[str, int]:
        """The last batch of each query that is decided."""
        found = {path.name: self._batches(path.name, _MANIFEST) for path in self.folder.iterdir() if path.is_dir()}
        return {query: batches[-1] for query, batches in found.items() if batches}

    def unfinished(self) -> Iterable[Manifest]:
        """What is decided and, as far as the log knows, not all delivered."""
        for query in sorted(self.listed()):
            done = set(self._batches(query, _DONE))
            for batch in self._batches(query, _MANIFEST):
                found = self.find(query, batch) if batch not in done else None
                if found is not None:
                    yield found

    def verdict(self, mark: Mark, broker: str, queue_offset: int) -> Verdict:
        """What is known of the half message at a place. Not the attempt counts but the place: a send that was tried
        twice may have left two half messages, of which the attempt knows one."""
        batches = self._batches(mark.query, _MANIFEST)
        if not batches or mark.batch > batches[-1]:
            return Verdict.RUNNING
        places = self._places(mark.query, mark.batch).get(broker, [])
        at = bisect_left(places, queue_offset)
        return Verdict.LISTED if at < len(places) and places[at] == queue_offset else Verdict.UNLISTED

    def _places(self, query: str, batch: int) -> dict[str, list[int]]:
        """Queue offsets of a decided batch by broker, in order; none if it had no rows, or is long done."""
        known = self._read.get((query, batch))
        if known is None:
            manifest = self.find(query, batch)
            known = {}
            for attempt in manifest.attempts if manifest is not None else ():
                for broker, positions in attempt.positions():
                    known.setdefault(broker, []).extend(one.queue_offset for one in positions)
            for places in known.values():
                places.sort()
            self._read[query, batch] = known
            if len(self._read) > READ_MAX:
                del self._read[next(iter(self._read))]
        return known

    def _batches(self, query: str, ending: str) -> list[int]:
        try:
            found = [path.name for path in (self.folder / query).iterdir()]
        except (FileNotFoundError, NotADirectoryError):
            return []
        stems = [name.removesuffix(ending) for name in found if name.endswith(ending)]
        return sorted(int(stem) for stem in stems if stem.isdecimal())

    def _path(self, query: str, batch: int, ending: str) -> Path:
        return self.folder / query / f"{batch:020}{ending}"


def packed(places: dict[str, list[Position]]) -> dict[str, bytes]:
    """Places by broker in the form in which tasks hand them to the driver."""
    return {broker: pack_positions(positions) for broker, positions in places.items()}
