"""Inner batches: a batch that is stored as it came, as one record, because its topic is of `queue.type=BatchCQ`.

A batch becomes one if its header carries a unique key; clients unwrap it again (`NEED_UNWRAP`). A producer may also
send a body that it packed itself, as one message with the flag `INNER_BATCH` and the property `INNER_NUM`. Neither
mark may stand without the other's meaning: the number needs the flag, the flag needs the topic.

Mirrors: SendMessageProcessor.sendBatchMessage, MessageDecoder.countInnerMsgNum, HookUtils.checkInnerBatch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from struct import Struct
from typing import Final

from cometmq.broker.inner_messages import InnerMessage
from cometmq.errors import MessageRefused, RequestRefused
from cometmq.model import properties
from cometmq.model.sysflag import MessageFlag
from cometmq.model.topic import TopicConfig
from cometmq.store.batch_queue import COUNT_MAX
from cometmq.wire.batch import split_batch
from cometmq.wire.command import Body
from cometmq.wire.record import Record

INNER_BATCH: Final = int(MessageFlag.INNER_BATCH)
WRAPPED_HERE: Final = int(MessageFlag.INNER_BATCH | MessageFlag.NEED_UNWRAP)

_SIZE: Final = Struct(">i")


def becomes_one(topic: TopicConfig, found: Mapping[str, str]) -> bool:
    """Whether a batch with these properties is stored as one record."""
    return topic.is_batch and properties.UNIQ_KEY in found


def count_messages(body: Body) -> int:
    """How many messages a batch holds, by the sizes of its sub-records alone, as the original counts them."""
    count = at = 0
    end = len(body)
    while at < end:
        size = _SIZE.unpack_from(body, at)[0] if end - at >= _SIZE.size else 0
        at += size
        count += 1
        if size <= 0 or at > end:
            raise RequestRefused(
                "SYSTEM_ERROR", f"message {count - 1} of the batch claims {size} bytes; nothing stored"
            )
    if not 0 < count <= COUNT_MAX:
        raise RequestRefused("SYSTEM_ERROR", f"the batch has {count} messages: 1 to {COUNT_MAX} fit")
    return count


def given_count(found: Mapping[str, str]) -> int:
    """What `INNER_NUM` says of a body that the producer packed; without it, 1."""
    text = found.get(properties.INNER_NUM, "1")
    try:
        count = int(text)
    except ValueError:
        count = COUNT_MAX + 1
    if not -COUNT_MAX - 1 <= count <= COUNT_MAX:
        raise RequestRefused(
            "SYSTEM_ERROR", f"{properties.INNER_NUM} is {text}: a number up to {COUNT_MAX} is expected"
        )
    return count


def check_marks(sys_flag: int, found: Mapping[str, str]) -> None:
    """For a message that is to be stored as it is: neither flag nor number may call it an inner batch."""
    if sys_flag & INNER_BATCH or properties.INNER_NUM in found:
        raise MessageRefused(f"{properties.INNER_NUM} or the flag of an inner batch, where there is none")


def check_not_delayed(found: Mapping[str, str]) -> None:
    """A delay would take the batch to a topic that is not one of batches."""
    level = found.get(properties.DELAY, "0")
    if (level.isdecimal() and int(level)) or not found.keys().isdisjoint(properties.TIMER_WISHES):
        raise MessageRefused("an inner batch cannot be delayed: send its messages one by one")


def refuse_stray_number(message: InnerMessage) -> None:
    """A stage of `InnerMessages`."""
    if properties.INNER_NUM in message.properties:
        check_marks(message.sys_flag, message.properties)


def plain_messages(record: Record) -> list[Record]:
    """The messages of an inner batch as records that any topic takes; one that a producer packed itself stays one."""
    sys_flag = record.sys_flag & ~WRAPPED_HERE
    if record.sys_flag & WRAPPED_HERE == WRAPPED_HERE:
        return [
            replace(
                record,
                sys_flag=sys_flag,
                flag=flag,
                body=bytes(body),
                properties_text=bytes(property_data).decode("utf-8", "replace"),
            )
            for flag, body, property_data in split_batch(record.body)
        ]
    kept = {key: value for key, value in record.properties.items() if key != properties.INNER_NUM}
    return [replace(record, sys_flag=sys_flag, properties_text=properties.render(kept))]
