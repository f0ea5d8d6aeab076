"""Large tables are answered in pages, to those who ask for one.

A page is asked for with a start, a count, and the version of the table that the pages before came from; when the
table has changed meanwhile the pages begin anew. Who names none of the three gets the whole table.

Mirrors: TopicConfigManager.subTopicConfigTable.
"""

from __future__ import annotations

from cometmq.broker.config import BrokerConfig
from cometmq.errors import ProtocolError, RequestRefused
from cometmq.model.data_version import DataVersion
from cometmq.wire import fastjson


def page_asked_for(
    config: BrokerConfig, current: DataVersion, version: str | None, start: int | None, count: int | None
) -> tuple[int, int] | None:
    """Where the page begins and how much it may hold; None where the whole table is meant."""
    if not config.enable_split_metadata or (version is None and start is None and count is None):
        return None
    count = config.split_metadata_size if count is None else min(count, config.split_metadata_size)
    if start is None or start < 0 or count <= 0:
        raise RequestRefused("SYSTEM_ERROR", "a page of a table needs a start from 0 on and a count from 1 on")
    if start and not _same(version, current):
        return 0, count
    return start, count


def _same(text: str | None, current: DataVersion) -> bool:
    if not text or text.isspace():
        return False
    try:
        return DataVersion.from_json(fastjson.loads(text.encode())) == current
    except ProtocolError:
        return False
