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


def page_start(
    config: BrokerConfig, current: DataVersion, version: str | None, start: int | None, count: int | None
) -> int | None:
    """Where the page begins; None where the whole table is meant."""
    if not config.enable_split_metadata or (version is None and start is None and count is None):
        return None
    if start is None:
        raise RequestRefused("SYSTEM_ERROR", "a page of the table was asked for without saying where it begins")
    if start and not _same(version, current):
        return 0
    return start


def _same(text: str | None, current: DataVersion) -> bool:
    if not text or text.isspace():
        return False
    try:
        return DataVersion.from_json(fastjson.loads(text.encode())) == current
    except ProtocolError:
        return False
