"""Message properties: the reserved keys, and the string form in which they travel and are stored.

    KEY \\x01 value \\x02 KEY \\x01 value \\x02 ...

The last separator may be missing (batch sub-records of old clients leave it out). A piece without a
name or without a value is dropped, as Java drops it; a value may contain \\x01.

Mirrors: MessageConst, MessageDecoder.string2messageProperties.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NAME_SEPARATOR: Final = "\x01"
PROPERTY_SEPARATOR: Final = "\x02"
KEY_SEPARATOR: Final = " "
PROPERTIES_SIZE_MAX: Final = 32_767

KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
WAIT: Final = "WAIT"
DELAY: Final = "DELAY"
RETRY_TOPIC: Final = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE_ID: Final = "REAL_QID"
TRANSACTION_PREPARED: Final = "TRAN_MSG"
PRODUCER_GROUP: Final = "PGROUP"
TRANSACTION_ID: Final = "__transactionId__"
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
TRANSACTION_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
CHECK_IMMUNITY_TIME_IN_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
MSG_REGION: Final = "MSG_REGION"
TRACE_ON: Final = "TRACE_ON"
UNIQ_KEY: Final = "UNIQ_KEY"
INNER_NUM: Final = "INNER_NUM"
INNER_BASE: Final = "INNER_BASE"
CLUSTER: Final = "CLUSTER"
MESSAGE_TYPE: Final = "MSG_TYPE"
PRIORITY: Final = "_SYS_MSG_PRIORITY_"
SHARDING_KEY: Final = "__SHARDINGKEY"
LITE_TOPIC: Final = "__LITE_TOPIC"
MULTI_DISPATCH: Final = "INNER_MULTI_DISPATCH"  # more queues that the message is meant for
CRC32: Final = "__CRC32#"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
TIMER_DELAY_SEC: Final = "TIMER_DELAY_SEC"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_WISHES: Final = (TIMER_DELIVER_MS, TIMER_DELAY_SEC, TIMER_DELAY_MS)  # when a message is to be delivered
TIMER_OUT_MS: Final = "TIMER_OUT_MS"  # the slot of the wheel
TIMER_ENQUEUE_MS: Final = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS: Final = "TIMER_DEQUEUE_MS"
TIMER_ROLL_TIMES: Final = "TIMER_ROLL_TIMES"
TIMER_DEL_UNIQKEY: Final = "TIMER_DEL_UNIQKEY"  # a mark of recall, and what it recalls
BORN_TIMESTAMP: Final = "BORN_TIMESTAMP"
DELIVERED_MARK: Final = "__COMET_DELIVERED"  # CometMQ's own: see broker/delivered_marks.py
DAMAGED_MARK: Final = "__COMET_DAMAGED"  # CometMQ's own: what `cometmq store repair` put in the place of a message
PATIENCE_MARK: Final = "__COMET_PATIENT"  # CometMQ's own, of half messages: see broker/transaction/checks.py
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
PUSH_REPLY_TIME: Final = "PUSH_REPLY_TIME"
ARRIVE_TIME: Final = "ARRIVE_TIME"
CORRELATION_ID: Final = "CORRELATION_ID"
TTL: Final = "TTL"
FIRST_POP_TIME: Final = "1ST_POP_TIME"
ORIGIN_GROUP: Final = "ORIGIN_GROUP"
POP_CK: Final = "POP_CK"  # the receipt of a popped message

# What a program may not give as a property of its own: the system puts or reads it.
RESERVED: Final = frozenset(
    {
        "KEYS", "TAGS", "WAIT", "DELAY", "RETRY_TOPIC", "ORIGIN_GROUP", "REAL_TOPIC", "REAL_QID", "TRAN_MSG",
        "PGROUP", "MIN_OFFSET", "MAX_OFFSET", "BUYER_ID", "ORIGIN_MESSAGE_ID", "TRANSFER_FLAG", "CORRECTION_FLAG",
        "MQ2_FLAG", "RECONSUME_TIME", "MSG_REGION", "TRACE_ON", "UNIQ_KEY", "EXTEND_UNIQ_INFO",
        "MAX_RECONSUME_TIMES", "CONSUME_START_TIME", "INNER_NUM", "INNER_BASE", "TRAN_PREPARED_QUEUE_OFFSET",
        "__transactionId__", "TRANSACTION_CHECK_TIMES", "CHECK_IMMUNITY_TIME_IN_SECONDS", "INSTANCE_ID",
        "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "ARRIVE_TIME", "PUSH_REPLY_TIME", "CLUSTER", "MSG_TYPE",
        "POP_CK", "POP_CK_OFFSET", "1ST_POP_TIME", "__SHARDINGKEY", "INNER_MULTI_DISPATCH",
        "INNER_MULTI_QUEUE_OFFSET", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "TIMER_ENQUEUE_MS",
        "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES", "TIMER_OUT_MS", "TIMER_DEL_UNIQKEY", "TIMER_DELAY_LEVEL",
        "__BORNHOST", "BORN_TIMESTAMP", "__CRC32#", "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID",
        "_SYS_MSG_PRIORITY_", "__LITE_TOPIC", "__COMET_DELIVERED", "__COMET_DAMAGED", "__COMET_PATIENT",
    }
)  # fmt: skip


def parse(text: str) -> dict[str, str]:
    """Read the string form; a later pair of the same key wins."""
    found: dict[str, str] = {}
    for piece in text.split(PROPERTY_SEPARATOR):
        name, separator, value = piece.partition(NAME_SEPARATOR)
        if separator and name and value:
            found[name] = value
    return found


def render(properties: Mapping[str, str]) -> str:
    """Write the string form, closed by a separator as Java 5 closes it."""
    return "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])
