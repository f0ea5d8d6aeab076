"""The JSON tables of a store: each must have a copy that can be read."""

from __future__ import annotations

from typing import Any, Final

from cometmq.errors import StoreError
from cometmq.store.inspection.findings import Report
from cometmq.store.inspection.folder import Folder
from cometmq.store.needed_tables import TOPICS, lost_tables
from cometmq.store.tables import BACKUP_SUFFIX, TableFile

TABLES: Final = "config"


# What each must hold: an object by this name.
CONTENT: Final = {
    TOPICS: "topicConfigTable",
    "subscriptionGroup.json": "subscriptionGroupTable",
    "consumerOffset.json": "offsetTable",
    "delayOffset.json": "offsetTable",
}


def table_names(folder: Folder) -> list[str]:
    """The tables of which the newest copy or the one before is there, and those that are lost."""
    names = folder.fs.list_dir(folder.config.config_dir)
    there = {name.removesuffix(BACKUP_SUFFIX) for name in names if name.endswith((".json", ".json.bak"))}
    return sorted(there | lost_tables(folder.fs, folder.config).keys())


def load_table(folder: Folder, name: str) -> tuple[TableFile, dict[str, Any] | None]:
    """A table and its newest sound copy; raises `StoreError`, as a broker would, where there is none."""
    lost = lost_tables(folder.fs, folder.config).get(name)
    if lost is not None:
        raise StoreError(lost)
    table = table_of(folder, name)
    content, key = table.load(), CONTENT.get(name)
    if content is not None and key is not None and not isinstance(content.get(key) or {}, dict):
        content = table.load_backup(f"{table.path} is JSON, but its {key} is no object")
        if not isinstance(content.get(key) or {}, dict):
            raise StoreError(f"{table.path} and the copy before it are JSON, but their {key} is no object")
    return table, content


def table_of(folder: Folder, name: str) -> TableFile:
    return TableFile(folder.fs, f"{folder.config.config_dir}/{name}")


def topics_of(folder: Folder) -> frozenset[str]:
    """The names in `topics.json`; none if it cannot be read."""
    try:
        table = table_of(folder, TOPICS).load() or {}
    except StoreError:
        return frozenset()
    found = table.get("topicConfigTable")
    return frozenset(found) if isinstance(found, dict) else frozenset()


def check_tables(folder: Folder, report: Report) -> None:
    names = table_names(folder)
    good = 0
    for name in names:
        try:
            table, _ = load_table(folder, name)
        except StoreError as broken:
            report.fault(TABLES, str(broken))
            continue
        good += 1
        if table.warning is not None:
            report.note(TABLES, table.warning)
    report.summary[TABLES] = f"{good} of {len(names)} tables can be read"
