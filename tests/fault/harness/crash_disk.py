"""A disk that can be cut from power: it records every change, and makes the folders that a cut could leave.

What was synced is there. Of what was not, anything may be: each write whole, torn at a sector, or not at all; a name
that was not synced to its folder is there or not; a file renamed without that has its old name or its new one, with
whatever of its content survives. The names of a folder survive in their order, and so do set sizes, as in every
journal, but a name may be there before its size; a file that grows by a write has its new size when the file system
gets to it.

    keep all       as if only the process had died
    lose all       nothing but what was synced
    prefix         everything up to some moment, and the write at that moment torn
    some 512       a random choice of sectors
    some 4096      a random choice of pages

A recording may begin on a folder that has files: they count as synced. Files are known by their inode, so a rename
moves a content that may itself not be on the disk yet.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from tests.unit.store.kit import QuickFs

from cometmq.store.fs import Buffer

JOURNAL: Final = 0  # the order of names and set sizes; others are named by inode
MODES: Final = ("keep all", "lose all", "prefix", "some 512", "some 4096")


class Step(NamedTuple):
    """One change. `inode` is 0 for changes of a folder."""

    what: str  # create, rename, unlink, dir, rmdir, sync_dir; size, write, sync
    path: str
    inode: int = 0
    number: int = 0  # offset or size
    data: bytes = b""
    new_path: str = ""


@dataclass
class Image:
    """A folder's files: what is behind each name."""

    names: dict[str, int] = field(default_factory=dict)
    contents: dict[int, bytearray] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)


class CrashDisk(QuickFs):
    """The real file system, recording."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.steps: list[Step] = []
        self.open_files: dict[int, tuple[str, int]] = {}
        self._inodes = itertools.count(1)
        self.start = Image()
        if root.exists():
            for path in sorted(root.rglob("*")):
                if path.is_dir():
                    self.start.folders.add(str(path))
                else:
                    inode = next(self._inodes)
                    self.start.names[str(path)] = inode
                    self.start.contents[inode] = bytearray(path.read_bytes())
        self._names = dict(self.start.names)
        self._unsynced: dict[int, list[int]] = {}  # by inode: writes since its last sync
        self.dropped: set[int] = set()  # writes that a failed sync has forgotten

    # What the store calls

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> int:
        fd = super().open(path, create=create, read_only=read_only)
        if path not in self._names:
            self._names[path] = next(self._inodes)
            self.steps.append(Step("create", path, self._names[path]))
        self.open_files[fd] = path, self._names[path]
        return fd

    def close(self, fd: int) -> None:
        self.open_files.pop(fd, None)
        super().close(fd)

    def _note(self, what: str, fd: int, number: int = 0, data: bytes = b"") -> None:
        path, inode = self.open_files[fd]
        if what == "sync":
            self._unsynced.pop(inode, None)
        else:
            self._unsynced.setdefault(inode, []).append(len(self.steps))
        self.steps.append(Step(what, path, inode, number, data))

    def preallocate(self, fd: int, size: int) -> None:
        super().preallocate(fd, size)
        self._note("grow", fd, size)

    def truncate(self, fd: int, size: int) -> None:
        super().truncate(fd, size)
        self._note("size", fd, size)

    def pwrite(self, fd: int, data: Buffer, offset: int) -> int:
        count = super().pwrite(fd, data, offset)
        self._note("write", fd, offset, bytes(memoryview(data)[:count]))
        return count

    def pwritev(self, fd: int, parts: Sequence[Buffer], offset: int) -> int:
        count = super().pwritev(fd, parts, offset)
        self._note("write", fd, offset, b"".join(parts)[:count])
        return count

    def sync(self, fd: int) -> None:
        self._note("sync", fd)

    def drop_unsynced(self, fd: int) -> None:
        """What Linux does when a sync fails: the pages count as clean, and no later sync brings them to the disk."""
        self.dropped.update(self._unsynced.pop(self.open_files[fd][1], ()))

    def fsync_dir(self, path: str) -> None:
        self.steps.append(Step("sync_dir", path))

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        inode = self._names.pop(old)
        self._names[new] = inode
        self.steps.append(Step("rename", old, inode, new_path=new))

    def unlink(self, path: str) -> None:
        super().unlink(path)
        self.steps.append(Step("unlink", path, self._names.pop(path)))

    def make_dirs(self, path: str) -> None:
        if not os.path.isdir(path):  # noqa: PTH112 (paths are plain strings on this floor)
            self.steps.append(Step("dir", path))
        super().make_dirs(path)

    def remove_dir(self, path: str) -> None:
        super().remove_dir(path)
        if not os.path.isdir(path):  # noqa: PTH112
            self.steps.append(Step("rmdir", path))

    # What a power cut leaves

    @property
    def sync_points(self) -> list[int]:
        """Numbers of the steps that sync something."""
        return [number for number, step in enumerate(self.steps) if step.what in ("sync", "sync_dir")]

    def left_at(self, moment: int, mode: str, chance: random.Random, into: Path) -> None:
        """Make the folder `into` as a power cut after `moment` steps could leave this one."""
        for path, content in self.image_at(moment, mode, chance).items():
            copy = into / Path(path).relative_to(self.root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)

    def image_at(self, moment: int, mode: str, chance: random.Random) -> dict[str, bytearray]:
        """The files by their names."""
        steps = self.steps[:moment]
        synced: dict[int, int] = {}
        named: dict[str, int] = {}
        for number, step in enumerate(steps):
            if step.what == "sync":
                synced[step.inode] = number
            elif step.what == "sync_dir":
                named[step.path] = number
        image = Image(dict(self.start.names), {key: bytearray(data) for key, data in self.start.contents.items()})
        sizes = {inode: len(content) for inode, content in image.contents.items()}
        seen_sizes = dict(sizes)  # what the process saw: a write within it makes no file grow
        cut = self._prefix_end(steps, chance) if mode == "prefix" else moment
        ends: dict[int, int] = {}  # by order: changes up to here are there
        for number, step in enumerate(steps):
            if step.what in ("create", "rename", "unlink"):
                since = named.get(step.path.rpartition("/")[0], -1)
                if self._survives_in_order(
                    number, step.path.rpartition("/")[0], since, mode, cut, moment, ends, chance
                ):
                    _rename(image, step)
            elif step.what in ("grow", "size", "write"):
                content = image.contents.setdefault(step.inode, bytearray())
                since = synced.get(step.inode, -1)
                order = step.inode if step.what == "write" else JOURNAL
                seen_size = seen_sizes.get(step.inode, 0)
                seen_sizes[step.inode] = _resized(seen_size, step)
                grows = step.what != "write" or seen_size < seen_sizes[step.inode]
                if grows and self._survives_in_order(number, order, since, mode, cut, moment, ends, chance):
                    sizes[step.inode] = _resize(content, sizes.get(step.inode, 0), step)
                if step.what != "write" or (number in self.dropped and mode != "keep all"):
                    continue
                if number < since or mode == "keep all" or (mode == "prefix" and number < cut):
                    _write(content, step.number, step.data)
                elif mode == "prefix" and number == cut:
                    _write_torn(content, step, chance)
                elif mode.startswith("some"):
                    _write_some(content, step, int(mode.split()[1]), chance)
        return {
            path: image.contents.get(inode, bytearray())[: sizes.get(inode, 0)].ljust(sizes.get(inode, 0), b"\0")
            for path, inode in image.names.items()
        }

    def _prefix_end(self, steps: Sequence[Step], chance: random.Random) -> int:
        """A moment among the last steps: further back most is synced anyway."""
        return max(0, len(steps) - chance.randrange(1, 24))

    def _survives_in_order(
        self,
        number: int,
        order: int,
        since: int,
        mode: str,
        cut: int,
        moment: int,
        ends: dict[int, int],
        chance: random.Random,
    ) -> bool:
        """Whether a change that is kept in an order is there: the journal's, or that of one file's growth by writes."""
        if number < since or mode == "keep all":
            return True
        if mode == "lose all":
            return False
        if mode == "prefix":
            return number <= cut
        if order not in ends:
            ends[order] = chance.randrange(moment + 1)
        return number < ends[order]


def _rename(image: Image, step: Step) -> None:
    if step.what == "create":
        image.names[step.path] = step.inode
    elif image.names.get(step.path) == step.inode:
        del image.names[step.path]
        if step.what == "rename":
            image.names[step.new_path] = step.inode


def _resize(content: bytearray, size: int, step: Step) -> int:
    """The size after a step; what is cut off reads as zeros if the file grows again."""
    if step.what == "size":
        del content[step.number :]
    return _resized(size, step)


def _resized(size: int, step: Step) -> int:
    return step.number if step.what == "size" else max(size, step.number + len(step.data))


def _write(content: bytearray, at: int, data: bytes) -> None:
    content.extend(bytes(max(at - len(content), 0)))
    content[at : at + len(data)] = data


def _write_torn(content: bytearray, step: Step, chance: random.Random) -> None:
    """A write of which the power cut let only the first sectors, or only the last, through."""
    size = chance.choice((512, 4096))
    end = step.number + len(step.data)
    places = range(step.number // size * size + size, end, size)
    tear = chance.choice(places) if places else chance.choice((step.number, end))
    if chance.random() < 0.8:
        _write(content, step.number, step.data[: tear - step.number])
    else:
        _write(content, tear, step.data[tear - step.number :])


def _write_some(content: bytearray, step: Step, size: int, chance: random.Random) -> None:
    at, data = step.number, step.data
    for sector in range(at // size * size, at + len(data), size):
        if chance.random() < 0.5:
            start, end = max(sector, at), min(sector + size, at + len(data))
            _write(content, start, data[start - at : end - at])
