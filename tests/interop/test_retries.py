"""Failing consumers and delayed messages, with Apache RocketMQ's own clients; every delay level is 1 s."""

from __future__ import annotations

import pytest
from tests.interop.clients import Outcome
from tests.interop.test_clients import every_client, every_java_client

pytestmark = pytest.mark.timeout(900)

LEVEL_MS = 1_000
SLACK_MS = 4_000  # of client, scheduler and a busy machine; how late the broker itself is, is tested with the broker


@every_client
def test_failed_messages_come_back_until_they_are_dead(outcome: Outcome) -> None:
    facts = outcome["retries"]
    assert facts["tries"] == {"first": [0], "later": [0, 1], "never": [0, 1, 2], "delayed": [0]}
    assert facts["dead"] == [["never", 3, True]]
    assert not [pause_ms for pause_ms in facts["pauses_ms"] if not LEVEL_MS <= pause_ms < LEVEL_MS + SLACK_MS]
    assert len(facts["pauses_ms"]) == 3


@every_client
def test_a_delayed_message_comes_neither_early_nor_late(outcome: Outcome) -> None:
    assert LEVEL_MS <= outcome["retries"]["delayed_ms"] < LEVEL_MS + SLACK_MS


@every_java_client
def test_what_a_consumer_in_order_gives_up_is_dead_at_once(outcome: Outcome) -> None:
    tries, dead, times = outcome["retries"]["in_order"]
    assert (tries, dead) == ([0, 1, 2], ["never"])
    assert times in (2, 3)  # the client counts here, and 4.9.8 leaves out the last try
