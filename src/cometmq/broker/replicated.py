"""Tables that a slave copies from its master: what it asks, and who takes the answer.

A capability that keeps a table names it in `Core.replicated`; `broker/ha/metadata.py` does the asking. What comes is
another broker's word: `take` checks names as it would those of any client, and leaves the table as it was if the body
is not what it should be.

Mirrors: SlaveSynchronize.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from cometmq.errors import ProtocolError
from cometmq.model.data_version import DataVersion
from cometmq.wire import fastjson
from cometmq.wire.schema import Header


class Replicated(NamedTuple):
    """One table; `often` for one that is asked for every few seconds, `of_the_log` for one that says how far something
    in the log is: it means nothing to a slave whose log does not reach as far."""

    name: str
    request: Header
    take: Callable[[bytes], None]
    often: bool = False
    of_the_log: bool = False


def read_table(body: bytes, key: str) -> tuple[dict[str, Any], DataVersion | None]:
    """The rows that stand under `key`, and the version of the table, if it says one."""
    found = fastjson.loads(body)
    rows = found.get(key) if isinstance(found, dict) else None
    if not isinstance(rows, dict):
        raise ProtocolError(f"the master's answer has no table {key}")
    version = found.get("dataVersion")
    return rows, None if version is None else DataVersion.from_json(version)


def whole_rows(rows: Any) -> dict[int, int]:
    """A table of whole numbers by whole numbers."""
    try:
        return {int(key): int(value) for key, value in rows.items()}
    except (AttributeError, TypeError, ValueError) as broken:
        raise ProtocolError(f"the master's table is not one of numbers: {broken}") from None
