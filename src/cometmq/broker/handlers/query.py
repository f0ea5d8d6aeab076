"""Messages by key, by unique key and by id.

The answer is whole records as they stand in the log. They may be old, and the way to them long, so both looking for
them and reading them happens in a worker thread.

Mirrors: QueryMessageProcessor.
"""

from __future__ import annotations

import asyncio

from cometmq.errors import RequestRefused
from cometmq.net.routes import LATER, Call, Later, handles
from cometmq.store.engine import Store
from cometmq.wire.codes import ResponseCode
from cometmq.wire.requests.query import QueryMessage, QueryMessageReply, ViewMessage


class QueryHandlers:
    """Answers who looks for single messages."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @handles(QueryMessage)
    async def query(self, request: QueryMessage, call: Call) -> Later:
        count = self._store.config.default_query_max_num if request.unique_key else request.max_num
        if count < 0:
            raise RequestRefused("SYSTEM_ERROR", f"maxNum is {count}: it cannot be negative")
        topic, key = request.topic or "null", request.key or "null"  # Java joins them to a text, and null is one
        self._store.settle_index()
        offsets = await asyncio.to_thread(
            self._store.search,
            topic,
            key,
            count,
            request.begin_timestamp,
            request.end_timestamp,
            None if request.unique_key else request.index_type,
        )
        ranges = self._store.places(offsets)
        time_ms, offset = self._store.index_last_update if ranges else (0, 0)
        header = QueryMessageReply(index_last_update_timestamp=time_ms, index_last_update_phyoffset=offset)
        pieces = await asyncio.to_thread(self._store.load, ranges) if ranges else []
        if pieces:
            call.reply_parts(header, pieces, sum(map(len, pieces)))
        else:
            remark = "can not find message, maybe time range not correct"
            call.reply(header, code=ResponseCode.QUERY_NOT_FOUND, remark=remark)
        return LATER

    @handles(ViewMessage)
    async def view(self, request: ViewMessage, call: Call) -> Later:
        record = self._store.record_at(request.offset)
        if record is None:
            raise RequestRefused("SYSTEM_ERROR", f"can not find message by the offset, {request.offset}")
        pieces = await asyncio.to_thread(self._store.load, [(request.offset, len(record))])
        call.reply_parts(None, pieces, sum(map(len, pieces)))
        return LATER
