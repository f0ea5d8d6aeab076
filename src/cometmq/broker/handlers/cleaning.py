"""Cleaning up on demand: what retention would do by itself, later.

Mirrors: AdminBrokerProcessor (cleanExpiredConsumeQueue, cleanUnusedTopic, deleteExpiredCommitLog).
"""

from __future__ import annotations

from cometmq.broker.topics import Topics
from cometmq.broker.upkeep import Upkeep
from cometmq.model import names
from cometmq.net.routes import DONE, Call, handles
from cometmq.store.engine import Store
from cometmq.wire.requests.admin import CleanExpiredConsumeQueue, CleanUnusedTopic, DeleteExpiredCommitLog
from cometmq.wire.schema import Header


class CleaningHandlers:
    """Serves operators who want room now."""

    def __init__(self, topics: Topics, store: Store, upkeep: Upkeep) -> None:
        self._topics = topics
        self._store = store
        self._upkeep = upkeep

    @handles(CleanExpiredConsumeQueue)
    def clean_expired(self, request: CleanExpiredConsumeQueue, call: Call) -> Header:
        self._store.clean_expired_queues()
        return DONE

    @handles(CleanUnusedTopic)
    async def clean_unused(self, request: CleanUnusedTopic, call: Call) -> Header:
        stored = {topic for topic, *_ in self._store.queues()}
        for topic in stored:
            kept = topic in self._topics or self._topics.is_system(topic) or topic.startswith(names.LMQ_PREFIX)
            if not kept:
                self._store.delete_topic(topic)
        await self._upkeep.settle("what no topic owns")
        return DONE

    @handles(DeleteExpiredCommitLog)
    def delete_expired(self, request: DeleteExpiredCommitLog, call: Call) -> Header:
        self._store.delete_expired_by_hand()
        return DONE
