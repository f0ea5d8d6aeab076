"""Programs written for Apache RocketMQ, unchanged, against CometMQ: what they saw is what the original shows."""

from __future__ import annotations

from collections import defaultdict

import pytest
from tests.interop.clients import CLIENTS, JAVA_CLIENTS, Client, Outcome

# The first run builds the clients.
pytestmark = pytest.mark.timeout(900)


def name_of(client: Client) -> str:
    return client.name


every_client = pytest.mark.parametrize("outcome", CLIENTS, ids=name_of, indirect=True)
every_java_client = pytest.mark.parametrize("outcome", JAVA_CLIENTS, ids=name_of, indirect=True)


def numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{n}" for n in range(count)]


@every_client
def test_a_thousand_messages_are_pulled_once_and_in_order(outcome: Outcome) -> None:
    facts = outcome["thousand"]
    sent: dict[str, list[list[object]]] = defaultdict(list)
    for queue, offset, body, status in facts["sent"]:
        assert status == "SEND_OK"
        sent[str(queue)].append([offset, body])
    assert facts["queues"] == len(sent) == 4
    assert all([offset for offset, _ in queue] == list(range(len(queue))) for queue in sent.values())
    assert facts["pulled"] == sent
    assert sum(map(len, sent.values())) == 1000


@every_client
@pytest.mark.parametrize("way", ["push", "poll"])
def test_a_consumer_gets_a_thousand_messages_once(outcome: Outcome, way: str) -> None:
    received = sorted(tuple(row) for row in outcome[way]["received"])
    assert received == sorted((queue, offset, body) for queue, offset, body, _ in outcome["thousand"]["sent"])


@every_java_client
def test_a_poll_keeps_the_order_of_each_queue(outcome: Outcome) -> None:
    offsets: dict[int, list[int]] = defaultdict(list)
    for queue, offset, _ in outcome["poll"]["received"]:
        offsets[queue].append(offset)
    assert all(of == sorted(of) for of in offsets.values())


@every_java_client
def test_a_consumer_can_go_back(outcome: Outcome) -> None:
    assert outcome["poll"]["sought"] == list(range(200, 250))


@every_client
def test_a_batch_lies_together_and_in_order(outcome: Outcome) -> None:
    facts = outcome["batch"]
    assert facts["pulled"] == numbered("b", 100)
    assert facts["queues_used"] == 1
    assert facts["tagged"] == 50


@every_java_client
def test_a_batch_is_acknowledged_with_all_its_ids(outcome: Outcome) -> None:
    facts = outcome["batch"]
    assert facts["ids_acknowledged"] is True
    assert facts["offset_ids"] == 100


@every_client
def test_one_way_messages_arrive(outcome: Outcome) -> None:
    assert sorted(outcome["oneway"]["pulled"]) == sorted(numbered("o", 100))


@every_client
def test_asynchronous_sends_are_acknowledged_and_arrive(outcome: Outcome) -> None:
    facts = outcome["async"]
    assert facts["failures"] == []
    assert facts["all_called_back"] is True
    assert facts["acknowledged"] == 200
    assert sorted(facts["pulled"]) == sorted(numbered("a", 200))


@every_client
def test_body_and_properties_come_back_as_sent(outcome: Outcome) -> None:
    assert outcome["properties"] == {
        "body": "grüße 彗星 ☄",
        "tags": "tag-1",
        "keys": "key-1 key-2",
        "flag": 7,
        "colour": "grün",
        "id_equal": True,
        "reconsume_times": 0,
        "born_before_stored": True,
    }


@every_client
def test_large_bodies_come_back_byte_for_byte(outcome: Outcome) -> None:
    facts = outcome["large"]
    assert facts["size"] == int(3.9 * 1024 * 1024)
    assert sorted(facts["pulled"]) == sorted(facts["sent"])
    assert len(facts["sent"]) == 2


@every_client
def test_a_body_over_the_limit_is_refused_and_takes_no_offset(outcome: Outcome) -> None:
    assert outcome["too_large"] == {"over_limit_code": 13, "at_limit_code": 0, "next_offset": 2}


@every_client
def test_properties_over_the_limit_are_refused_and_take_no_offset(outcome: Outcome) -> None:
    assert outcome["long_properties"] == {"code": 13, "next_offset": 1}


@every_client
def test_an_absent_topic_is_refused(outcome: Outcome) -> None:
    facts = outcome["absent"]
    assert facts["pull_code"] == 17
    assert facts.get("send_code", 17) == 17  # the Go client cannot ask without creating


@every_client
def test_tags_select_messages(outcome: Outcome) -> None:
    facts = outcome["tags"]
    assert sorted(facts["pulled"]) == sorted(f"t{n}" for n in range(30) if n % 3 != 1)
    assert sorted(facts["pushed"]) == sorted(f"t{n}" for n in range(30) if n % 3 == 1)


@every_client
def test_a_waiting_pull_wakes_when_a_message_arrives(outcome: Outcome) -> None:
    facts = outcome["wake"]
    assert facts["status"] == "FOUND"
    assert facts["bodies"] == ["second"]
    assert facts["woken_after_ms"] < 2_000  # the pull would have waited 15 s or more


@every_client
def test_a_group_goes_on_behind_its_committed_offset(outcome: Outcome) -> None:
    facts = outcome["commit"]
    assert facts["committed"] == len(facts["first"]) == 15
    assert len(facts["rest"]) == 25
    assert not set(facts["first"]) & set(facts["rest"])


@every_client
def test_a_created_topic_has_the_queues_asked_for(outcome: Outcome) -> None:
    assert outcome["create"] == {"queues": 6, "publish_queues": 6, "pulled": ["in"]}


@every_client
def test_a_deleted_topic_is_gone_and_begins_anew(outcome: Outcome) -> None:
    facts = outcome["delete"]
    assert (facts["listed_before"], facts["listed_after"]) == (True, False)
    assert facts.get("route_code", 17) == 17
    assert facts["restarts_at"] == 0


@every_java_client
def test_messages_are_found_by_key_and_by_id(outcome: Outcome) -> None:
    facts = outcome["query"]
    assert facts["by_key"] == ["q3"]
    assert sorted(facts["by_shared_key"]) == numbered("q", 10)
    assert facts["by_absent_key"] == 0
    assert facts["by_unique_key"] == facts["by_offset_id"] == "q9"
    assert facts["ids_equal"] is True


@every_java_client
def test_offsets_are_found_by_time(outcome: Outcome) -> None:
    assert outcome["offsets"] == {
        "min": 0,
        "max": 15,
        "at_epoch": 0,
        "at_second": 5,
        "before_third": 10,
        "at_third": 10,
        "in_future": 15,
        "earliest_is_first": True,
        "empty_min": 0,
        "empty_max": 0,
        "empty_at_epoch": 0,
        "empty_earliest": -1,
    }
