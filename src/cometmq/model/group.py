"""A consumer group's configuration, as `subscriptionGroup.json` and admin tools hold it.

Mirrors: SubscriptionGroupConfig.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

RETRY_KINDS: Final = ("CUSTOMIZED", "EXPONENTIAL")
EXPONENTIAL_RETRIES: Final = {"initial": 5_000, "max": 7_200_000, "multiplier": 2}  # ms, ms, and times
CUSTOMIZED_RETRIES_MS: Final = tuple(
    second * 1_000 for second in (1, 5, 10, 30, *range(60, 601, 60), 1_200, 1_800, 3_600, 7_200)
)


def _custom_retry() -> dict[str, Any]:
    return {"type": RETRY_KINDS[0]}


def _flag(value: Any) -> bool:
    return value in (True, "true")


def _number(value: Any) -> int:
    return 0 if value is None else int(value)


@dataclass(slots=True)
class GroupConfig:
    """How a group consumes on one broker. `subscription_data_set` is kept as it came."""

    name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    group_retry_policy: dict[str, Any] | None = field(default_factory=_custom_retry)
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
    group_sys_flag: int = 0
    consume_timeout_minute: int = 15
    subscription_data_set: list[Any] | None = None
    attributes: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "attributes": self.attributes,
            "brokerId": self.broker_id,
            "consumeBroadcastEnable": self.consume_broadcast_enable,
            "consumeEnable": self.consume_enable,
            "consumeFromMinEnable": self.consume_from_min_enable,
            "consumeMessageOrderly": self.consume_message_orderly,
            "consumeTimeoutMinute": self.consume_timeout_minute,
            "groupName": self.name,
            "groupRetryPolicy": self.group_retry_policy,
            "groupSysFlag": self.group_sys_flag,
            "notifyConsumerIdsChangedEnable": self.notify_consumer_ids_changed_enable,
            "retryMaxTimes": self.retry_max_times,
            "retryQueueNums": self.retry_queue_nums,
            "subscriptionDataSet": self.subscription_data_set,
            "whichBrokerWhenConsumeSlowly": self.which_broker_when_consume_slowly,
        }
        # Java writes no nulls, and it is compared with what we write.
        return {key: value for key, value in fields.items() if value is not None}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> GroupConfig:
        """Read what a peer or a table holds; a missing field takes its default, a null is 0 or false."""
        get = fields.get
        made = cls(
            name=str(get("groupName") or ""),
            consume_enable=_flag(get("consumeEnable", True)),
            consume_from_min_enable=_flag(get("consumeFromMinEnable", True)),
            consume_broadcast_enable=_flag(get("consumeBroadcastEnable", True)),
            consume_message_orderly=_flag(get("consumeMessageOrderly", False)),
            retry_queue_nums=_number(get("retryQueueNums", 1)),
            retry_max_times=_number(get("retryMaxTimes", 16)),
            broker_id=_number(get("brokerId", 0)),
            which_broker_when_consume_slowly=_number(get("whichBrokerWhenConsumeSlowly", 1)),
            notify_consumer_ids_changed_enable=_flag(get("notifyConsumerIdsChangedEnable", True)),
            group_sys_flag=_number(get("groupSysFlag", 0)),
            consume_timeout_minute=_number(get("consumeTimeoutMinute", 15)),
            subscription_data_set=get("subscriptionDataSet"),
            attributes={str(key): str(value) for key, value in dict(get("attributes") or {}).items()},
        )
        if "groupRetryPolicy" in fields:
            made.group_retry_policy = fields["groupRetryPolicy"]
        return made
