"""Repairing the JSON tables: from the copy before, topics from the queues, and else by doing without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from cometmq.errors import StoreError
from cometmq.store.fs import FileSystem
from cometmq.store.inspection.folder import Folder
from cometmq.store.inspection.table_check import load_table, table_names
from cometmq.store.needed_tables import TOPICS
from cometmq.store.tables import BACKUP_SUFFIX, TableFile

DAMAGED_SUFFIX: Final = ".damaged"
READ_WRITE: Final = 6

_COSTS: Final = {
    "consumerOffset.json": "consumers begin again where their settings say: at the first or the last message",
    "subscriptionGroup.json": "settings of consumer groups; groups themselves are made again when they connect",
    "delayOffset.json": "delayed messages that were delivered already may be delivered again",
}

Made = tuple[str, Callable[[], None], "str | None"]  # what, apply, what it costs


def table_steps(fs: FileSystem, folder: Folder) -> Iterator[Made]:
    """What can be done about tables that cannot be read."""
    for name in table_names(folder):
        try:
            table, backup = load_table(folder, name)
        except StoreError:
            yield _without(fs, folder, name)
            continue
        if table.warning is not None and backup is not None:
            yield (
                f"{table.path}: put the copy before it, {name}{BACKUP_SUFFIX}, in its place",
                partial(_replace, fs, table.path, backup),
                None,
            )


def _without(fs: FileSystem, folder: Folder, name: str) -> Made:
    path = f"{folder.config.config_dir}/{name}"
    if name == TOPICS:
        return (
            f"{path}: make it again from the folders of the queues",
            partial(_replace, fs, path, topics_from_queues(folder)),
            "settings of topics beside the number of their queues",
        )
    return (
        f"{path}: move it and the copy before it aside (to {name}{DAMAGED_SUFFIX}) and start without",
        partial(_set_aside, fs, path),
        _COSTS.get(name, "what it held"),
    )


def topics_from_queues(folder: Folder) -> dict[str, Any]:
    """A table of topics that has every queue there is."""
    counts: dict[str, int] = {}
    for topic, queue_id in folder.queues.queues:
        counts[topic] = max(counts.get(topic, 0), queue_id + 1)
    return {
        "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 0},
        "topicConfigTable": {
            topic: {
                "topicName": topic,
                "readQueueNums": count,
                "writeQueueNums": count,
                "perm": READ_WRITE,
                "topicFilterType": "SINGLE_TAG",
                "topicSysFlag": 0,
                "order": False,
                "attributes": {},
            }
            for topic, count in sorted(counts.items())
        },
    }


def _set_aside(fs: FileSystem, path: str) -> None:
    for copy in (path, path + BACKUP_SUFFIX):
        if fs.exists(copy):
            fs.rename(copy, copy + DAMAGED_SUFFIX)
    fs.fsync_dir(path.rpartition("/")[0])


def _replace(fs: FileSystem, path: str, table: dict[str, Any]) -> None:
    """Make this the newest copy; a damaged one goes aside, the copy before stays."""
    if fs.exists(path):
        fs.rename(path, path + DAMAGED_SUFFIX)
    TableFile(fs, path).save(table)
