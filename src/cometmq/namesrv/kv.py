"""Key-value settings by namespace, kept in one JSON file; the order of ordered topics is among them.

    {"configTable":{"ORDER_TOPIC_CONFIG":{"TopicA":"broker-a:4;broker-b:4"}}}

Invariant: a change is in the file before it is answered.

Mirrors: KVConfigManager.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from cometmq.errors import ConfigError, ProtocolError, RequestRefused
from cometmq.namesrv.files import write_whole
from cometmq.wire import fastjson
from cometmq.wire.bodies.reading import as_object

log = logging.getLogger("cometmq.namesrv")

ENTRIES_MAX: Final = 100_000


class KvTable:
    """The table and its file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._table: dict[str, dict[str, str]] = {}
        self._count = 0

    def load(self) -> None:
        """Read the file; a missing one is an empty table, a broken one stops the start."""
        try:
            data = Path(self._path).read_bytes()
        except FileNotFoundError:
            return
        except OSError as broken:
            raise ConfigError(f"cannot read the key-value file {self._path}: {broken}") from None
        try:
            fields = as_object(fastjson.loads(data), "the file") if data.strip() else {}
            for namespace, pairs in as_object(fields.get("configTable") or {}, "configTable").items():
                texts = {k: fastjson.text_of(v) for k, v in as_object(pairs, namespace).items() if v is not None}
                self._table[namespace] = texts
        except ProtocolError as broken:
            raise ConfigError(
                f"the key-value file {self._path} cannot be read: {broken}. The version before is in {self._path}.bak."
            ) from None
        self._count = sum(len(pairs) for pairs in self._table.values())

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """All pairs of a namespace; None where nothing was ever put into it."""
        return self._table.get(namespace)

    def put(self, namespace: str, key: str, value: str | None) -> None:
        """Set a value. None makes the namespace and no entry: Java keeps a null, which no question can see."""
        pairs = self._table.get(namespace, {})
        before = pairs.get(key)
        if before is None and self._count >= ENTRIES_MAX:
            raise RequestRefused("SYSTEM_ERROR", f"{ENTRIES_MAX} key-value entries are stored, the most allowed")
        changed = {k: v for k, v in pairs.items() if k != key}
        if value is not None:
            changed[key] = value
        self._keep({**self._table, namespace: changed})

    def delete(self, namespace: str, key: str) -> None:
        pairs = self._table.get(namespace)
        if pairs is not None:
            self._keep({**self._table, namespace: {k: v for k, v in pairs.items() if k != key}})

    def _keep(self, table: dict[str, dict[str, str]]) -> None:
        write_whole(self._path, fastjson.dumps({"configTable": table}))
        self._table = table
        self._count = sum(len(pairs) for pairs in table.values())
