"""Questions with answers, traces and compressed bodies, as Apache RocketMQ's own clients use them."""

from __future__ import annotations

import pytest
from tests.interop.clients import Outcome
from tests.interop.test_clients import every_client, every_java_client

pytestmark = pytest.mark.timeout(900)


@every_client
def test_every_question_gets_its_answer(outcome: Outcome) -> None:
    assert outcome["request"]["answers"] == [f"answer to question {n}" for n in range(10)]


@every_client
def test_a_question_that_nobody_answers_times_out(outcome: Outcome) -> None:
    assert outcome["request"]["late"] == "RequestTimeoutException"


@every_client
def test_clients_leave_a_trace_of_a_message(outcome: Outcome) -> None:
    facts = outcome["trace"]
    assert facts["received"] == ["traced"]
    assert facts["kinds"] == {"Pub": 1, "SubBefore": 1, "SubAfter": 1}


@every_java_client
def test_compressed_bodies_come_back_whole(outcome: Outcome) -> None:
    assert outcome["compressed"] == {codec: [True, True] for codec in ("ZLIB", "LZ4", "ZSTD")}
