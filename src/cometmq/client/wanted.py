"""What a consumer wants of a topic: all of it, some tags, or what a SQL92 expression says; checked before the network.

Mirrors: FilterAPI, MessageSelector.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from cometmq.client.message import ReceivedMessage, check_topic
from cometmq.errors import FilterRefused, InvalidArgument
from cometmq.filter import sql as sql92
from cometmq.filter import tags as tag_filter
from cometmq.model.subscription import ALL, SQL92, TAG, SubscriptionData


def subscription(topic: str, tags: str | Sequence[str] | None = None, sql: str | None = None) -> SubscriptionData:
    """A subscription, as consumers' keywords name it: `tags="a || b"` (or a list), or `sql="price > 10"`."""
    check_topic(topic)
    version = time.time_ns() // 1_000_000
    if sql is not None:
        if tags is not None:
            raise InvalidArgument("tags and sql cannot be given together: write TAGS = 'a' AND … in the expression")
        try:
            sql92.parse(sql)
        except FilterRefused as fault:
            raise InvalidArgument(f"the SQL92 expression cannot be read: {fault} (character {fault.at})") from None
        return tag_filter.build(topic, sql, SQL92, version)
    if tags is not None and not isinstance(tags, str):
        if not tags or any("|" in tag or not tag.strip() for tag in tags):
            raise InvalidArgument(
                f"tags is {list(tags)!r}; a list holds at least one tag, and none is empty or has a |"
            )
        tags = " || ".join(tags)
    pieces = [ALL] if tags is None else [piece for piece in tags.split("||") if piece.strip()]
    if not pieces or any("|" in piece for piece in pieces):
        raise InvalidArgument(f"tags is {tags!r}; give one tag, several as in 'a || b', or {ALL!r} for all")
    return tag_filter.build(topic, tags or ALL, TAG, version)


def chosen(wanted: SubscriptionData) -> Callable[[ReceivedMessage], bool] | None:
    """The test that a client makes once more, as brokers compare hashes of tags only; None where all is wanted."""
    if not wanted.tags_set:
        return None
    return lambda message: message.tags in wanted.tags_set
