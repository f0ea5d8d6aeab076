"""Messages on their way into the store that are more than bytes: rerouted, retried, delivered by the broker itself.

A producer's plain message never comes here: it is appended as it is. One whose properties name a key that a stage
claims does, and so does everything that the broker writes of its own accord.

    Send ─ producer_stages ─┐
                            ├─ stages ─ append
    the broker's own ───────┘

A stage may change the message (a delayed one goes to the schedule topic) or refuse it by `RequestRefused`.

Mirrors: MessageExtBrokerInner, PutMessageHook, HookUtils.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cometmq.broker.durability import Durability
from cometmq.model import properties
from cometmq.model.names import SCHEDULE_TOPIC
from cometmq.store.append import Appended
from cometmq.store.engine import Store
from cometmq.store.fs import Buffer
from cometmq.wire.record import Record


@dataclass(slots=True)
class InnerMessage:
    """A message about to be stored; what its queue needs of the tags and keys is read from the properties."""

    topic: str
    queue_id: int
    body: Buffer
    properties: dict[str, str]
    flag: int = 0
    sys_flag: int = 0
    born_time_ms: int = 0
    born_host: bytes = bytes(8)
    reconsume_times: int = 0
    prepared_offset: int = 0
    due: bool = False  # its delay is over, whatever its properties still say

    @classmethod
    def of(cls, record: Record) -> InnerMessage:
        """What is stored already, to be stored again, changed."""
        return cls(
            topic=record.topic,
            queue_id=record.queue_id,
            body=record.body,
            properties=record.properties,
            flag=record.flag,
            sys_flag=record.sys_flag,
            born_time_ms=record.born_time_ms,
            born_host=record.born_host,
            reconsume_times=record.reconsume_times,
            prepared_offset=record.prepared_offset,
        )


Stage = Callable[[InnerMessage], None]


class InnerMessages:
    """The one way into the store for such messages."""

    def __init__(self, store: Store, durability: Durability) -> None:
        self._store = store
        self._durability = durability
        self._producer_stages: list[Stage] = []
        self._stages: list[Stage] = []
        self.special_keys: set[str] = set()

    def add_stage(self, stage: Stage, *keys: str, producers_only: bool = False) -> None:
        """Let `stage` see the messages that carry one of `keys`: those of producers only, or all."""
        self.special_keys.update(keys)
        (self._producer_stages if producers_only else self._stages).append(stage)

    def put(self, message: InnerMessage, *, from_producer: bool = False) -> Appended:
        """Append; it is written, with everything else, when this turn of the loop ends."""
        if from_producer:
            for stage in self._producer_stages:
                stage(message)
        for stage in self._stages:
            stage(message)
        found = message.properties
        fields = (
            message.topic,
            message.queue_id,
            message.body,
            properties.render(found).encode(),
            found.get(properties.TAGS),
            found.get(properties.KEYS),
            found.get(properties.UNIQ_KEY),
            message.flag,
            message.sys_flag,
            message.born_time_ms,
            message.born_host,
            message.reconsume_times,
            message.prepared_offset,
        )
        if message.topic == SCHEDULE_TOPIC and properties.DELAY in found:
            placed = self._store.append_delayed(found[properties.DELAY], *fields)
        else:
            placed = self._store.append(*fields)
        self._durability.end_turn_soon()
        return placed

    async def put_safely(self, message: InnerMessage) -> Appended:
        """Append, and return when the message is as safe as an acknowledged one."""
        placed = self.put(message)
        await self._durability.safe(placed.physical_offset + placed.size)
        return placed
