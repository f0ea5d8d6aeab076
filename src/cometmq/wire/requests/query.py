"""Finding messages: by key, by unique key, by id.

Mirrors: QueryMessageRequestHeader, ViewMessageRequestHeader.
"""

from __future__ import annotations

from cometmq.wire.codes import RequestCode
from cometmq.wire.schema import Header, Int32, named, request


class QueryMessageReply(Header):
    index_last_update_timestamp: int
    index_last_update_phyoffset: int


@request(RequestCode.QUERY_MESSAGE, reply=QueryMessageReply)
class QueryMessage(Header):
    max_num: Int32
    begin_timestamp: int
    end_timestamp: int
    topic: str | None = None
    key: str | None = None
    index_type: str | None = None
    last_key: str | None = None
    unique_key: bool = named("_UNIQUE_KEY_QUERY", default=False)


@request(RequestCode.VIEW_MESSAGE_BY_ID)
class ViewMessage(Header):
    offset: int
    topic: str | None = None
