"""The JSON tables of a store: each must have a copy that can be read."""

from __future__ import annotations

from typing import Final

from cometmq.errors import StoreError
from cometmq.store.inspection.findings import Report
from cometmq.store.inspection.folder import Folder
from cometmq.store.tables import BACKUP_SUFFIX, TableFile

TABLES: Final = "config"


def table_names(folder: Folder) -> list[str]:
    """The tables of which the newest copy or the one before is there."""
    names = folder.fs.list_dir(folder.config.config_dir)
    return sorted({name.removesuffix(BACKUP_SUFFIX) for name in names if name.endswith((".json", ".json.bak"))})


def table_of(folder: Folder, name: str) -> TableFile:
    return TableFile(folder.fs, f"{folder.config.config_dir}/{name}")


def topics_of(folder: Folder) -> frozenset[str]:
    """The names in `topics.json`; none if it cannot be read."""
    try:
        table = table_of(folder, "topics.json").load() or {}
    except StoreError:
        return frozenset()
    found = table.get("topicConfigTable")
    return frozenset(found) if isinstance(found, dict) else frozenset()


def check_tables(folder: Folder, report: Report) -> None:
    names = table_names(folder)
    good = 0
    for name in names:
        table = table_of(folder, name)
        try:
            table.load()
        except StoreError as broken:
            report.fault(TABLES, str(broken))
            continue
        good += 1
        if table.warning is not None:
            report.note(TABLES, table.warning)
    report.summary[TABLES] = f"{good} of {len(names)} tables can be read"
