"""Messages chosen at the broker by SQL92 or by tag, as Apache RocketMQ's own clients ask for them."""

from __future__ import annotations

import pytest
from tests.interop.clients import Outcome
from tests.interop.test_clients import every_client, every_java_client

pytestmark = pytest.mark.timeout(900)


@every_client
def test_a_push_consumer_gets_what_its_expression_wants(outcome: Outcome) -> None:
    assert sorted(outcome["sql"]["pushed"]) == sorted(f"s{n}" for n in range(10, 40) if n % 3 != 1)


@every_java_client
def test_a_lite_consumer_gets_what_its_selector_wants(outcome: Outcome) -> None:
    facts = outcome["sql"]
    assert sorted(facts["polled"]) == sorted(f"s{n}" for n in range(26, 40) if n % 3 != 1)
    assert sorted(facts["tagged"]) == sorted(f"s{n}" for n in range(0, 40, 2))


@every_java_client
def test_a_consumer_with_a_wrong_expression_does_not_start(outcome: Outcome) -> None:
    assert outcome["sql"]["wrong"] == 23
