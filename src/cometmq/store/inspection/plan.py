"""What can be repaired in a store, and the repair itself.

A plan is a list of steps. Each says what it does and what is lost by it, and changes nothing until `apply`. Steps that
cost something beyond what is lost already (`costs`) are only done if that is accepted. Before damaged bytes of the log
are written over they are copied to `<root>/damaged/`, durably; no later repair replaces such a copy.

Mirrors: nothing in Java.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cometmq.clock import SystemClock
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.damage import Damage
from cometmq.store.fs import FileSystem, OsFs, remove_tree, write_all
from cometmq.store.inspection.check import Check
from cometmq.store.inspection.findings import Report
from cometmq.store.inspection.folder import Folder
from cometmq.store.inspection.lost import lost_in
from cometmq.store.inspection.placeholders import overwritten
from cometmq.store.inspection.table_steps import table_steps
from cometmq.store.log_walk import Walk
from cometmq.store.recovery import Progress
from cometmq.store.segment import Segment, segment_path


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that can be done. `costs` says what is lost by it and not lost already; None: nothing."""

    what: str
    apply: Callable[[], None]
    costs: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What was found, and what can be done about it."""

    report: Report
    steps: list[Step]


def plan_of(folder: Folder, progress: Progress | None = None) -> Plan:
    """Look at the store and say what can be done."""
    fs = OsFs()
    check = Check(folder, progress, for_repair=True)
    report = check.run()
    units = list(check.units.wanted())
    steps = [_fill_step(fs, folder, number, check.damages) for number in range(len(check.damages))]
    if check.lost_log is not None:
        steps.append(_begin_step(fs, folder, check))
    short = [path for path, _ in check.units.too_short()]
    if short:
        steps.append(
            Step(
                f"{', '.join(short[:5])}: give {len(short):,} too short files of queues their length again",
                lambda: _lengthen(fs, short, folder.config.mapped_file_size_consume_queue),
            )
        )
    if units and not report.is_sound("consumequeue"):
        steps.append(
            Step(
                f"write {len(units):,} units of queues as the log says they must be",
                lambda: _write_units(fs, folder, units),
            )
        )
    if not report.is_sound("index"):
        steps.append(
            Step(
                "remove the index; the next start builds it again from the newest ten files of the log",
                lambda: remove_tree(fs, folder.config.index_dir),
                "keys of messages in older files cannot be looked up any more",
            )
        )
    steps += [Step(what, apply, costs) for what, apply, costs in table_steps(fs, folder)]
    return Plan(report, steps)


def _begin_step(fs: FileSystem, folder: Folder, check: Check) -> Step:
    log, checkpoint = folder.log, folder.checkpoint
    end = max(checkpoint.flushed, checkpoint.logics_physical_offset, check.named_behind(0))
    start = -(-end // log.segment_size) * log.segment_size
    return Step(
        f"{segment_path(log.folder, start)}: begin the log anew with this file of {log.segment_size:,} bytes "
        "(mappedFileSizeCommitLog), behind all that was lost; queues go on at their offsets",
        lambda: _begin(fs, folder, start),
        "every message. If the log is only not mounted, mount it instead",
    )


def _begin(fs: FileSystem, folder: Folder, start: int) -> None:
    fs.make_dirs(folder.log.folder)
    segment = Segment.create(fs, folder.log.folder, start, folder.log.segment_size)
    try:
        fs.sync(segment.fd)
    finally:
        segment.close(fs)
    fs.fsync_dir(folder.log.folder)
    fs.fsync_dir(folder.root)


def _fill_step(fs: FileSystem, folder: Folder, number: int, damages: Sequence[Damage]) -> Step:
    damage = damages[number]
    lost = lost_in(folder, damage, damages)
    names = ", ".join(sorted({item.topic for item in lost})[:5])
    what = f"{len(lost)} lost message{'s' if len(lost) > 1 else ''} of {names}" if lost else "no message we know of"
    size = f"{damage.end - damage.start:,}"
    how = f"make {size} missing bytes" if damage.missing else f"write over {size} damaged bytes"
    return Step(
        f"{damage.path}: {how} from byte {damage.at} on; a sentence "
        f"takes the place of {what}, and all other messages keep their offsets",
        lambda: _fill(fs, folder, damage, damages[number:]),  # those before it are mended then
    )


def _fill(fs: FileSystem, folder: Folder, damage: Damage, damages: Sequence[Damage]) -> None:
    """Write over the damage, segment by segment."""
    log = folder.log
    lost = lost_in(folder, damage, damages)
    store_time_ms = _time_before(folder, damage.start)
    copies = f"{folder.root}/damaged"
    fs.make_dirs(copies)
    fs.fsync_dir(folder.root)
    at = damage.start
    while at < damage.end:
        end = min(log.segment_end(at), damage.end)
        start = log.segment_start(at)
        path = segment_path(log.folder, start)
        ends_segment = end == log.segment_end(at)
        is_there = fs.exists(path)
        fd = fs.open(path, create=True)
        try:
            if not is_there:
                fs.preallocate(fd, log.segment_size)
            old = fs.pread(fd, end - at, at - start)
            if is_there:
                _copy(fs, copies, f"{start:020d}-{at - start}", old)
            here = [item for item in lost if item.place < 0 or at <= item.place < end]
            new, homeless = overwritten(at, old, here, store_time_ms, ends_segment=ends_segment)
            write_all(fs, fd, new, at - start)
            fs.sync(fd)
        finally:
            fs.close(fd)
        lost = [item for item in lost if item.place >= end] + [item._replace(place=-1, size=-1) for item in homeless]
        at = end
    fs.fsync_dir(log.folder)


def _copy(fs: FileSystem, folder: str, name: str, data: bytes) -> None:
    """Keep these bytes under this name, or with a number behind it if there is such a copy."""
    count = sum(1 for found in fs.list_dir(folder) if found.partition(".")[0] == name)
    fd = fs.open(f"{folder}/{name}.{count}" if count else f"{folder}/{name}", create=True)
    try:
        write_all(fs, fd, data, 0)
        fs.sync(fd)
    finally:
        fs.close(fd)
    fs.fsync_dir(folder)


def _time_before(folder: Folder, offset: int) -> int:
    """The store time of the last message before the damage, so that times still never decrease."""
    log = folder.log
    for start in sorted((start for start in log.segments if start <= offset), reverse=True):
        times = [found[5] for found in Walk(log.view_of(start), start, 0, check_crc=False) if start + found[0] < offset]
        if times:
            return max(times)
    return SystemClock().now_ms()


def _lengthen(fs: FileSystem, paths: list[str], file_size: int) -> None:
    for path in paths:
        fd = fs.open(path)
        try:
            fs.truncate(fd, file_size)
            fs.sync(fd)
        finally:
            fs.close(fd)


def _write_units(fs: FileSystem, folder: Folder, units: list[tuple[ConsumeQueue, int, bytes]]) -> None:
    file_size = folder.config.mapped_file_size_consume_queue
    touched: set[str] = set()
    named: set[str] = set()
    for queue, offset, unit in units:
        path = queue.path_of(offset)
        fs.make_dirs(queue.folder)
        is_there = fs.exists(path)
        fd = fs.open(path, create=True)
        try:
            if not is_there:
                fs.truncate(fd, file_size)
                topic_folder = queue.folder.rpartition("/")[0]
                named |= {queue.folder, topic_folder, folder.config.consume_queue_dir, folder.root}
            write_all(fs, fd, unit, offset % queue.file_units * queue.unit_size)
        finally:
            fs.close(fd)
        touched.add(path)
    for path in touched:
        fd = fs.open(path)
        try:
            fs.sync(fd)
        finally:
            fs.close(fd)
    for path in named:
        fs.fsync_dir(path)
