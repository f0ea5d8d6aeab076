"""The index of a store: each file's entries must stand in the log's order, and its slots must lead to all of them."""

from __future__ import annotations

from typing import Final

from cometmq.store.index_file import IndexFile
from cometmq.store.index_holes import INDEX_SEGMENTS_MAX, lacks_some
from cometmq.store.index_repair import header_fits, sound_entries
from cometmq.store.inspection.findings import Report
from cometmq.store.inspection.folder import Folder

INDEX: Final = "index"


def check_index(folder: Folder, report: Report, log_end: int) -> None:
    config, fs = folder.config, folder.fs
    names = [name for name in fs.list_dir(config.index_dir) if name.isascii() and name.isdigit()]
    if not names:
        report.summary[INDEX] = "none: the next start indexes the newest files of the log"
        return
    entries = 0
    files: list[IndexFile] = []
    whole = True
    for name in names:
        file = IndexFile(fs, f"{config.index_dir}/{name}", config.max_hash_slot_num, config.max_index_num)
        size = fs.size(file.path)
        if size != file.size:
            report.note(
                INDEX,
                f"{file.path} is not looked at: it has {size:,} bytes, and maxHashSlotNum and maxIndexNum say "
                f"{file.size:,}; give the broker's configuration with -c. If it was cut off, move it away: the next "
                "start indexes the newest files of the log again",
            )
            continue
        file.open()
        files.append(file)
        try:
            if header_fits(file, folder.log.time_at, clean=folder.stopped_cleanly):
                entries += _check(file, report, log_end, last=name == names[-1], clean=folder.stopped_cleanly)
            else:
                whole = False
                report.note(
                    INDEX, f"{file.path}: its header is not what its entries say; the next start writes it anew"
                )
        finally:
            file.close()
    if files and whole:
        _find_holes(folder, files, report)
    report.summary[INDEX] = f"{len(names)} files, {entries:,} entries"


def _find_holes(folder: Folder, files: list[IndexFile], report: Report) -> None:
    """Messages that no file has, though one must: the next start indexes them."""
    tables = folder.queues, folder.batches.table
    if lacks_some(folder.log, tables, -1, files[0].begin_offset):
        report.note(INDEX, f"it begins later than the newest {INDEX_SEGMENTS_MAX} files of the log")
    for number, file in enumerate(files):
        is_last = number == len(files) - 1
        if is_last and not folder.stopped_cleanly:
            break
        if lacks_some(folder.log, tables, file.end_offset, 1 << 62 if is_last else files[number + 1].begin_offset):
            report.note(INDEX, f"messages behind the last of {file.path} are in no file: the next start indexes them")


def _check(file: IndexFile, report: Report, log_end: int, *, last: bool, clean: bool) -> int:
    sound, last_offset, slots = sound_entries(file)
    tell = report.note if last and not clean else report.fault  # what was being written when the broker died is mended
    if sound < file.next_entry:
        tell(INDEX, f"{file.path}: entry {sound} of {file.next_entry - 1} is damaged")
    elif file.load_slots().differ(slots):
        tell(INDEX, f"{file.path}: its slots do not lead to all of its entries")
    if last_offset >= log_end and sound > 1:
        report.note(INDEX, f"{file.path} names messages behind the log's end: the next start cuts them")
    return sound - 1
