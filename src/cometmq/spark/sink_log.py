"""The sink's log: which batches are decided, and of which half messages they consist. A folder that outlives drivers.

    sinkLog/id                                  names the producer group that is asked how things ended
    sinkLog/<query>/00000000000000000012.manifest   batch 12 is decided: exactly these half messages are delivered
    sinkLog/<query>/00000000000000000012.done       and they were, all of them
    sinkLog/<query>/00000000000000000012.accepted   made by people: that it came again as another one is all right
    sinkLog/.finished/<query>                   a batch write that is done and whose manifest is still whole

Invariants: a manifest (`sink_manifest`) is whole and on the disk: it is written aside, synced, and *linked* to its
name, which fails if somebody else was first; then theirs counts. Nothing is ended before its manifest is there. Every
batch of a query is decided, also one without rows, and in their order: so a gap is a loss. A manifest is replaced only
when it is done and `KEPT_COUNT` others have come, and by its own head; a stream's goes `HEADS_COUNT` batches later.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path
from typing import Final, Self
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from cometmq.errors import CometError, InvalidArgument, ProtocolError
from cometmq.spark.durable import make_folder, sync
from cometmq.spark.sink_manifest import NAME, Manifest, Mark

KEPT_COUNT: Final = 10
HEADS_COUNT: Final = 100  # as many batches as Spark keeps in its checkpoint
READ_MAX: Final = 4  # manifests whose places are kept in memory
WRITES: Final = "write-"  # what the names of batch writes begin with; those of streams are ids of queries
_MANIFEST: Final = ".manifest"
_DONE: Final = ".done"
_ACCEPTED: Final = ".accepted"
_FINISHED: Final = ".finished"
_NOWHERE: Final = array("q")


class SinkLogDamaged(CometError):
    """A file of the sink's log cannot be read; nothing may be decided without it."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} of the sink's log is damaged: {why}. It says which messages of its batch are delivered; bring it "
            "back from a copy. Without it nobody can tell, and a new checkpoint and a new sinkLog are needed"
        )


class SinkLogUnusable(CometError):
    """The folder of the sink's log cannot be read or written."""

    def __init__(self, path: Path, fault: OSError) -> None:
        super().__init__(
            f"{path} of the sink's log (sinkLog) cannot be used: {fault.strerror or fault}. The driver must be able to "
            "write there, on a file system that has hard links and syncs files and folders"
        )


class BatchUnknown(CometError):
    """The log lacks what it should know of a query's batches: whether they were delivered, nobody can tell."""


class BatchChanged(CometError):
    """A batch that is decided came again, and is another one."""


class Verdict(Enum):
    """What the log says of one half message."""

    LISTED = auto()
    UNLISTED = auto()
    RUNNING = auto()  # its batch is not decided yet, or nothing is known of it


class SinkLog:
    """The folder. Files are read when they are asked about: other processes write, too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: dict[tuple[str, int], dict[str, array[int]]] = {}

    @classmethod
    def at(cls, where: str) -> Self:
        """The log at a path or file: address, made if it is not there."""
        folder = folder_of(where)
        with _said(folder):
            make_folder(folder)
        return cls(folder)

    @property
    def id(self) -> str:
        """The log's own name, which it was given when it was first used."""
        path = self.folder / "id"
        if not path.exists():
            self._put(path, uuid4().hex.encode())
        with _said(path):
            return path.read_text(encoding="ascii")

    # --- deciding

    def decide(self, manifest: Manifest) -> Manifest:
        """Decide a batch, durably; returns what counts, which is another's if it was decided before."""
        query, batch = manifest.query, manifest.batch
        found = self.find(query, batch)
        if found is not None:
            return found
        if batch < (self.last(query) or 0):
            raise self._gone(query, batch)
        path = self._path(query, batch, _MANIFEST)
        if not path.parent.exists():
            with _said(path.parent):
                make_folder(path.parent)
        if self._put(path, manifest.encode()):
            return manifest
        return self.decided(query, batch)

    def decided(self, query: str, batch: int) -> Manifest:
        """What was decided, of which it is known that something was."""
        found = self.find(query, batch)
        if found is None:
            raise self._gone(query, batch)
        return found

    def _gone(self, query: str, batch: int) -> BatchUnknown:
        return BatchUnknown(
            f"batch {batch} of {query} came again, and {self.folder} (sinkLog) does not know any more of how many rows "
            "it was: so old batches come again only where a checkpoint was put back. Bring back the one that goes with "
            "this sinkLog, or begin with a new checkpoint and a new sinkLog"
        )

    def check_same(self, decided: Manifest, rows: int) -> None:
        """Whether a batch that came again has as many rows as it was decided with."""
        path = self._path(decided.query, decided.batch, _ACCEPTED)
        if rows != decided.rows and not path.exists():
            raise BatchChanged(
                f"batch {decided.batch} of {decided.query} was decided with {decided.rows} rows and came again with "
                f"{rows}: the checkpoint was changed, or a source or the query does not give a repeated batch the same "
                "rows. What was decided is delivered, and nothing else of it. Bring back the checkpoint that goes with "
                f"{self.folder} (sinkLog); or, to go on with what was delivered and nothing else, make an empty file "
                f"{path}"
            )

    def _put(self, path: Path, data: bytes) -> bool:
        """Write a file that was not there; False, and nothing done, if it is."""
        with _said(path), self._aside(path, data) as aside:
            try:
                os.link(aside, path)
            except FileExistsError:
                return False
        return True

    @contextmanager
    def _aside(self, path: Path, data: bytes) -> Iterator[Path]:
        """A file beside `path`, on the disk; what becomes of it is on the disk afterwards."""
        aside = path.with_name(f".{path.name}.{uuid4().hex}")
        try:
            with open(aside, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield aside
        finally:
            aside.unlink(missing_ok=True)
            sync(path.parent)

    def finished(self, manifest: Manifest) -> None:
        """All of it is delivered."""
        self._put(self._path(manifest.query, manifest.batch, _DONE), b"")
        if manifest.query.startswith(WRITES):
            self._tidy_writes(manifest.query)
        else:
            self._tidy(manifest.query)

    def is_finished(self, manifest: Manifest) -> bool:
        return self._path(manifest.query, manifest.batch, _DONE).exists()

    def _tidy(self, query: str) -> None:
        """Shrink what is older than the last batches of a stream, and forget what is far older."""
        batches = self._batches(query, _MANIFEST)
        for batch in batches[: -KEPT_COUNT - HEADS_COUNT]:
            with _said(self._path(query, batch, _DONE)):
                if self._path(query, batch, _DONE).exists():
                    for ending in (_MANIFEST, _DONE, _ACCEPTED):
                        self._path(query, batch, ending).unlink(missing_ok=True)
        for batch in batches[-2 * KEPT_COUNT : -KEPT_COUNT]:
            self._shrink(query, batch)

    def _tidy_writes(self, query: str) -> None:
        """Of batch writes only the last ones to end are looked at: there may be any number of others."""
        folder = self.folder / _FINISHED
        with _said(folder):
            make_folder(folder)
            self._put(folder / query, b"")
            marks = [path for path in folder.iterdir() if path.name.startswith(WRITES)]
            for path in sorted(marks, key=lambda path: path.stat().st_mtime)[:-KEPT_COUNT]:
                self._shrink(path.name, 0)
                path.unlink(missing_ok=True)

    def _shrink(self, query: str, batch: int) -> None:
        """Keep the head alone of a manifest that is done."""
        manifest = self.find(query, batch)
        if manifest is not None and manifest.attempts and self.is_finished(manifest):
            path = self._path(query, batch, _MANIFEST)
            with _said(path), self._aside(path, manifest.head.encode()) as aside:
                aside.rename(path)

    # --- asking

    def find(self, query: str, batch: int) -> Manifest | None:
        path = self._path(query, batch, _MANIFEST)
        with _said(path):
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

    def last(self, query: str) -> int | None:
        """The last batch of a query that is decided."""
        batches = self._batches(query, _MANIFEST)
        return batches[-1] if batches else None

    def streams(self) -> dict[str, int]:
        """The last batch of each stream that is decided."""
        found = {query: self.last(query) for query in self._queries() if not query.startswith(WRITES)}
        return {query: batch for query, batch in found.items() if batch is not None}

    def _queries(self) -> list[str]:
        with _said(self.folder):
            return sorted(
                path.name for path in self.folder.iterdir() if NAME.fullmatch(path.name) and path.name != "id"
            )

    def unfinished(self) -> Iterable[Manifest]:
        """What is decided and, as far as the log knows, not all delivered."""
        for query in self._queries():
            done = set(self._batches(query, _DONE))
            for batch in self._batches(query, _MANIFEST):
                found = self.find(query, batch) if batch not in done else None
                if found is not None:
                    yield found

    def verdict(self, mark: Mark, broker: str, queue_offset: int) -> Verdict:
        """What is known of the half message at a place. Not the attempt counts but the place: a send that was tried
        twice may have left two half messages, of which the attempt knows one."""
        last = self.last(mark.query)
        if last is None or mark.batch > last:
            return Verdict.RUNNING
        places = self._places(mark.query, mark.batch).get(broker, _NOWHERE)
        at = bisect_left(places, queue_offset)
        return Verdict.LISTED if at < len(places) and places[at] == queue_offset else Verdict.UNLISTED

    def _places(self, query: str, batch: int) -> dict[str, array[int]]:
        """Queue offsets of a decided batch by broker, in order; none if it had no rows, or is long done."""
        known = self._read.get((query, batch))
        if known is None:
            manifest = self.find(query, batch)
            found: dict[str, array[int]] = {}
            for attempt in manifest.attempts if manifest is not None else ():
                for broker, positions in attempt.positions():
                    found.setdefault(broker, array("q")).extend(one.queue_offset for one in positions)
            known = {broker: array("q", sorted(offsets)) for broker, offsets in found.items()}
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


def folder_of(where: str) -> Path:
    """The folder that the option sinkLog means."""
    parts = urlsplit(where)
    if parts.scheme not in ("", "file") or (parts.scheme == "file" and parts.netloc not in ("", "localhost")):
        raise InvalidArgument(
            f"the option sinkLog is {where!r}; a path that the driver reaches as a file is needed (a local disk, or a "
            "mounted file system with hard links): a manifest must be on the disk, and must never be replaced"
        )
    folder = Path(unquote(parts.path) if parts.scheme == "file" else where)
    if not folder.is_absolute():
        raise InvalidArgument(f"the option sinkLog is {where!r}; an absolute path is needed: drivers come and go")
    return folder


@contextmanager
def _said(path: Path) -> Iterator[None]:
    """What the system refuses is said in words."""
    try:
        yield
    except OSError as fault:
        raise SinkLogUnusable(path, fault) from None
