"""A topic's configuration, as `topics.json` and registrations hold it.

Mirrors: TopicConfig.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from cometmq.model.sysflag import READ_WRITE

DEFAULT_QUEUE_NUMS = 16
QUEUE_TYPE = "queue.type"
BATCH_QUEUES = "BatchCQ"


@dataclass(slots=True)
class TopicConfig:
    """How many queues a topic has on one broker and what may be done with them."""

    name: str
    read_queue_nums: int = DEFAULT_QUEUE_NUMS
    write_queue_nums: int = DEFAULT_QUEUE_NUMS
    perm: int = READ_WRITE
    filter_type: str = "SINGLE_TAG"
    sys_flag: int = 0
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def is_batch(self) -> bool:
        """Whether its queues are of batches."""
        return self.attributes.get(QUEUE_TYPE) == BATCH_QUEUES

    def to_json(self) -> dict[str, Any]:
        return {
            "attributes": self.attributes,
            "order": self.order,
            "perm": self.perm,
            "readQueueNums": self.read_queue_nums,
            "topicFilterType": self.filter_type,
            "topicName": self.name,
            "topicSysFlag": self.sys_flag,
            "writeQueueNums": self.write_queue_nums,
        }

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> TopicConfig:
        """Read what a peer or a table holds; a missing field takes its default."""
        get = fields.get
        return cls(
            name=str(get("topicName") or ""),
            read_queue_nums=int(get("readQueueNums", DEFAULT_QUEUE_NUMS)),
            write_queue_nums=int(get("writeQueueNums", DEFAULT_QUEUE_NUMS)),
            perm=int(get("perm", READ_WRITE)),
            filter_type=str(get("topicFilterType") or "SINGLE_TAG"),
            sys_flag=int(get("topicSysFlag", 0)),
            order=bool(get("order", False)),
            attributes=dict(get("attributes") or {}),
        )
