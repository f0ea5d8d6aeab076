"""Tables that a store must have: one that is lost refuses the start, by name.

Without `topics.json` no message of the log can be read or found again, and consumers would be told that their topics
are absent. So while the log holds messages it must be there, or the copy before it. Other tables may be absent, as a
young store has none; but where a table has only empty copies its content is lost. One empty file and no copy before it
is what Java leaves that was killed in its first save: after a kill that counts as absent.

Mirrors: nothing in Java, which starts without.
"""

from __future__ import annotations

from typing import Final

from cometmq.errors import StoreError
from cometmq.store.config import StoreConfig
from cometmq.store.fs import FileSystem
from cometmq.store.lock import ABORT_NAME
from cometmq.store.segment import segment_path
from cometmq.store.tables import BACKUP_SUFFIX

TOPICS: Final = "topics.json"

_HEAD_SIZE: Final = 8  # total size and magic of the first record


def lost_tables(fs: FileSystem, config: StoreConfig) -> dict[str, str]:
    """Tables that a store with messages has lost, and what is wrong with each."""
    if not _holds_messages(fs, config):
        return {}  # Java leaves an empty file when it dies early in its first save
    folder = config.config_dir
    sizes = {name: fs.size(f"{folder}/{name}") for name in _tables_in(fs, folder)}
    killed = fs.exists(f"{config.store_path_root_dir}/{ABORT_NAME}")
    found: dict[str, str] = {}
    for name in sorted({TOPICS} | {name.removesuffix(BACKUP_SUFFIX) for name in sizes}):
        copies = [sizes[copy] for copy in (name, f"{name}{BACKUP_SUFFIX}") if copy in sizes]
        if not copies:
            found[name] = f"{folder}/{name} is gone, and so is the copy before it; the log has messages"
        elif not any(copies) and not (killed and name != TOPICS and f"{name}{BACKUP_SUFFIX}" not in sizes):
            found[name] = f"{folder}/{name} is empty, and there is no copy before it that is not"
    return found


def check_tables_there(fs: FileSystem, config: StoreConfig) -> None:
    """Raise for a table that is lost."""
    for why in lost_tables(fs, config).values():
        raise StoreError(
            f"{why}. Restore it; or `cometmq store repair {config.store_path_root_dir}` shows what can be done"
        )


def _tables_in(fs: FileSystem, folder: str) -> list[str]:
    names = fs.list_dir(folder) if fs.exists(folder) else []
    return [name for name in names if name.endswith((".json", f".json{BACKUP_SUFFIX}"))]


def _holds_messages(fs: FileSystem, config: StoreConfig) -> bool:
    folder = config.commit_log_dir
    starts = sorted(int(name) for name in (fs.list_dir(folder) if fs.exists(folder) else ()) if name.isdecimal())
    if not starts:
        return False
    if len(starts) > 1:
        return True
    fd = fs.open(segment_path(folder, starts[0]), read_only=True)
    try:
        return any(fs.pread(fd, _HEAD_SIZE, 0))
    finally:
        fs.close(fd)
