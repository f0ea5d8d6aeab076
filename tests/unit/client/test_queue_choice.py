"""Which queue a message goes to, and the header it gets."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from cometmq.client.queue_choice import AVOID_S_MAX, QueueChoice, Strategy, queue_of_key
from cometmq.client.route_cache import TOPICS_MAX, RouteCache
from cometmq.model.queue import MessageQueue
from cometmq.model.route import BrokerData, QueueData, TopicRoute
from cometmq.wire.command import decode_command
from cometmq.wire.requests.send import SendMessageV2
from cometmq.wire.send_template import SendTemplate

QUEUES = tuple(MessageQueue("t", broker, number) for broker in ("a", "b") for number in range(4))


def test_in_turn() -> None:
    choice = QueueChoice()
    assert Counter(choice.choose(QUEUES, 0.0) for _ in range(80)) == dict.fromkeys(QUEUES, 10)


def test_who_failed_is_left_out_for_a_while() -> None:
    choice = QueueChoice()
    choice.failed("a", 0.0)
    assert {choice.choose(QUEUES, 0.5).broker_name for _ in range(20)} == {"b"}
    assert {choice.choose(QUEUES, 1.5).broker_name for _ in range(20)} == {"a", "b"}
    for _ in range(5_000):  # many sends that were under way
        choice.failed("a", 0.5)
    assert {choice.choose(QUEUES, 1.5).broker_name for _ in range(20)} == {"a", "b"}
    now_s = 0.0
    for avoided_s in (2, 4, 8, 16, *(AVOID_S_MAX for _ in range(2_000))):  # an hour and more without it
        now_s += 100
        choice.failed("a", now_s)
        assert choice.choose(QUEUES, now_s + avoided_s - 0.1).broker_name == "b"
        assert {choice.choose(QUEUES, now_s + avoided_s + 0.1).broker_name for _ in range(20)} == {"a", "b"}
    choice.answered("a", 0.1)
    assert {choice.choose(QUEUES, 0.0).broker_name for _ in range(20)} == {"a", "b"}
    choice.failed("a", 0.0)
    choice.failed("b", 0.0)
    assert {choice.choose(QUEUES, 0.1).broker_name for _ in range(20)} == {"a", "b"}  # somebody must take it


def test_not_the_broker_that_just_failed_if_there_is_another() -> None:
    choice = QueueChoice()
    assert {choice.choose(QUEUES, 0.0, "a").broker_name for _ in range(20)} == {"b"}
    assert choice.choose(QUEUES[:4], 0.0, "a").broker_name == "a"


def test_the_faster_gets_more() -> None:
    choice = QueueChoice(Strategy.LEAST_LATENCY)
    for _ in range(50):
        choice.answered("a", 0.1)
        choice.answered("b", 0.01)
    assert {choice.choose(QUEUES, 0.0) for _ in range(50)} == set(QUEUES[4:])
    choice.failed("b", 0.0)
    assert {choice.choose(QUEUES, 0.0).broker_name for _ in range(20)} == {"a"}


def test_keys_as_java_hashes_them() -> None:
    assert queue_of_key("a", QUEUES) == QUEUES[97 % 8]  # "a".hashCode() is 97
    assert queue_of_key("polygenelubricants", QUEUES) == QUEUES[0]  # Integer.MIN_VALUE


def route(**queues: int) -> TopicRoute:
    return TopicRoute(
        [QueueData(name, count, count, 6) for name, count in queues.items()],
        [BrokerData("c", name, {0: f"{name}:1", 1: f"{name}:2"}) for name in queues],
    )


def test_routes() -> None:
    cache = RouteCache()
    assert cache.put("t", route(b=1, a=2))
    assert not cache.put("t", route(b=1, a=2))
    assert [(queue.broker_name, queue.queue_id) for queue in cache.writable["t"]] == [("a", 0), ("a", 1), ("b", 0)]
    assert (cache.address("a"), cache.address("a", 1), cache.address("a", 7)) == ("a:1", "a:2", None)
    assert cache.address("a", 7, or_any=True) == "a:1"
    assert cache.name_of("b:2") == "b"
    masterless = route(a=2)
    masterless.brokers[0].addrs.pop(0)
    cache.put("t", masterless)
    assert (cache.writable["t"], len(cache.readable["t"])) == ((), 2)
    ordered = route(a=2)
    ordered.order_conf = "a:1;z:2;odd"
    cache.put("t", ordered)
    assert [queue.broker_name for queue in cache.writable["t"]] == ["a", "z", "z"]
    cache.put("new", route(a=8), queues_max=4)
    assert (len(cache.writable["new"]), cache.readable.get("new")) == (4, None)
    for number in range(TOPICS_MAX + 5):
        cache.put(f"t{number}", masterless)
    assert len(cache.routes) == TOPICS_MAX


NAMES = st.text(st.sampled_from("ab%|_-09"), min_size=1)


@given(NAMES, NAMES, st.text(max_size=20), st.text(max_size=50), st.integers(0, 1 << 30), st.booleans())
def test_a_template_writes_what_the_encoder_would(
    group: str, topic: str, broker: str, properties: str, number: int, one_way: bool
) -> None:
    fixed = {
        "producer_group": group, "topic": topic, "default_topic": "TBW102", "default_topic_queue_nums": 4,
        "queue_id": 3, "broker_name": broker,
    }  # fmt: skip
    template = SendTemplate(SendMessageV2, **fixed)
    fill = template.fill_one_way if one_way else template.fill
    frame = fill(number, 1, 2, number, properties, b"12345") + b"12345"
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    command = decode_command(frame[4:])
    expected = SendMessageV2(**fixed, sys_flag=1, born_timestamp=2, flag=number, properties=properties)  # type: ignore[arg-type]
    assert SendMessageV2.read(command.ext) == expected
    assert (command.opaque, command.is_one_way, bytes(command.body)) == (number, one_way, b"12345")
