"""The JSON files under <root>/config: topics, groups, offsets.

    topics.json       the newest copy
    topics.json.bak   the one before
    topics.json.tmp   a copy being written; means nothing

A save writes and syncs the temporary file, renames the newest to `.bak` and the temporary to the newest, and
syncs the folder: at every moment one of the two names holds a whole copy. A load takes the newest that can be
read. A copy that cannot be read never replaces one that can.

Java's files have bare integer keys here and there; `load` takes them, `save` quotes them, Java reads both. What a
table does not know it must hand back to `save` as `load` gave it.

Mirrors: ConfigManager.
"""

from __future__ import annotations

import errno
from typing import Any, Final

import orjson

from cometmq.errors import ProtocolError, StoreError, StoreNotWritable
from cometmq.store.fs import FileSystem, write_all
from cometmq.wire import fastjson

BACKUP_SUFFIX: Final = ".bak"
TEMPORARY_SUFFIX: Final = ".tmp"

_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_INDENT_2


class TableFile:
    """One table's file and its backup. `load` before the first `save`."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self.path = path
        self._dir = path.rpartition("/")[0]
        self._saved = b""
        self._newest_is_good = False
        self.warning: str | None = None  # why the backup was taken, for the log

    def load(self) -> dict[str, Any] | None:
        """The table, or None if none was ever saved."""
        newest = self._read(self.path)
        if isinstance(newest, dict):
            self._newest_is_good = True
            return newest
        backup = self._read(self.path + BACKUP_SUFFIX)
        if isinstance(backup, dict):
            if newest is not None:
                self.warning = f"{newest}; the copy before it, {self.path}{BACKUP_SUFFIX}, is used"
            return backup
        if newest is None and backup is None:
            return None
        raise StoreError(
            f"{'; '.join(why for why in (newest, backup) if why)}; "
            "restore one of the two, or move both away to start without them"
        )

    def load_backup(self, why: str) -> dict[str, Any]:
        """The copy before, for the newest can be read but not used: `why` says what is wrong with it."""
        self._newest_is_good = False
        backup = self._read(self.path + BACKUP_SUFFIX)
        if isinstance(backup, dict):
            self.warning = f"{why}; the copy before it, {self.path}{BACKUP_SUFFIX}, is used"
            return backup
        none = f"there is no {self.path}{BACKUP_SUFFIX}"
        raise StoreError(f"{why}; {backup or none}; restore one of the two, or move both away to start without them")

    def _read(self, path: str) -> dict[str, Any] | str | None:
        """The content, or a sentence that says why not, or None where there is nothing."""
        if not self._fs.exists(path):
            return None
        try:
            fd = self._fs.open(path, read_only=True)
            try:
                data = self._fs.pread(fd, self._fs.size(path), 0)
            finally:
                self._fs.close(fd)
            if not data:
                return None  # Java leaves one when it dies early in its first save
            value = fastjson.loads(data)
        except (ProtocolError, OSError) as error:
            return f"{path} cannot be read: {error}"
        return value if isinstance(value, dict) else f"{path} does not hold a JSON object"

    def save(self, table: dict[str, Any]) -> bool:
        """Make this the newest copy, durably; False if it is what was saved last."""
        data = orjson.dumps(table, option=_OPTIONS)
        if data == self._saved:
            return False
        try:
            self._write(data)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise StoreNotWritable(
                    f"the disk is full: {self.path} cannot be saved and the copy before it is kept; free space, and "
                    "it works again"
                ) from error
            raise StoreError(
                f"{self.path} cannot be saved: {error.strerror or error}; the copy before it is kept"
            ) from error
        self._saved = data
        self._newest_is_good = True
        return True

    def _write(self, data: bytes) -> None:
        fs = self._fs
        temporary = self.path + TEMPORARY_SUFFIX
        fs.make_dirs(self._dir)
        fd = fs.open(temporary, create=True)
        try:
            fs.truncate(fd, 0)
            write_all(fs, fd, data, 0)
            fs.sync(fd)
        finally:
            fs.close(fd)
        if self._newest_is_good and fs.exists(self.path):
            fs.rename(self.path, self.path + BACKUP_SUFFIX)
            # From here to the next rename the newest is the backup, and must not be covered by a retry.
            self._newest_is_good = False
        fs.rename(temporary, self.path)
        fs.fsync_dir(self._dir)
