"""Pop with time in our hands: handing out, acknowledging, more time, coming back, order, resets, bounds."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from cometmq.broker.inner_messages import InnerMessage
from cometmq.broker.pop.retry_topic import REVIVE_GROUP
from cometmq.errors import MessageRefused
from cometmq.model.group import GroupConfig
from cometmq.model.names import TIMER_TOPIC
from cometmq.model.topic import TopicConfig
from cometmq.store.append import Appended
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import decode_records
from cometmq.wire.requests.pop import AckMessage, ChangeInvisibleTime, Notification, PeekMessage, PollingInfo

from .pop_kit import GROUP, TOPIC, PopKit, names, receipt_fields

MERGE = pytest.mark.parametrize("merge", [False, True], ids=["stored", "merged"])
COME_BACK_MS = 4_000  # after their invisible time, at the latest


OPEN: list[PopKit] = []


@pytest.fixture(autouse=True)
def let_go() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().let_go()


async def kit_with(path: Path, *sent: str, **config: object) -> PopKit:
    kit = PopKit(path, **config)
    await kit.start()
    OPEN.append(kit)
    for name in sent:
        kit.send(name)
    return kit


@MERGE
async def test_what_is_not_acknowledged_comes_back(tmp_path: Path, merge: bool) -> None:
    kit = await kit_with(tmp_path, "a", "b", "c", enable_pop_buffer_merge=merge)
    handed = kit.pop(invisible_time=10_000)
    assert names(handed) == ["a", "b", "c"]
    assert kit.pop() == []
    assert kit.ack(handed[1]).code == 0  # type: ignore[union-attr]
    await kit.pass_time(10_000)
    assert kit.pop() == []
    await kit.pass_time(COME_BACK_MS)
    again = kit.pop()
    assert names(again) == ["a", "c"]
    assert {one.record.reconsume_times for one in again} == {1}
    assert {one.record.topic for one in again} == {TOPIC}
    assert {one.record.properties["ORIGIN_GROUP"] for one in again} == {GROUP}
    first_pop = handed[0].receipt.split(" ")[1]
    assert {one.record.properties["1ST_POP_TIME"] for one in again} == {first_pop}
    for one in again:
        kit.ack(one)
    await kit.pass_time(60_000, 5_000)
    assert kit.pop() == []


async def test_a_message_comes_back_again_and_again(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, "a")
    for times in range(4):
        (handed,) = kit.pop(invisible_time=1_000)
        assert handed.record.reconsume_times == times
        await kit.pass_time(1_000 + COME_BACK_MS)


@MERGE
async def test_acknowledged_in_memory_is_never_written(tmp_path: Path, merge: bool) -> None:
    kit = await kit_with(tmp_path, "a", "b", enable_pop_buffer_merge=merge)
    for handed in kit.pop(invisible_time=30_000):
        kit.ack(handed)
    assert kit.store.max_offset(TIMER_TOPIC, 0) == (0 if merge else 3)
    assert kit.offsets.query(GROUP, TOPIC, 0) == 2


async def test_merged_checkpoints_leave_in_time_and_at_a_stop(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, "a", "b", "c", enable_pop_buffer_merge=True)
    first, _ = kit.pop(max_msg_nums=2, invisible_time=60_000)
    kit.ack(first)
    assert (len(kit.buffer), kit.offsets.query(GROUP, TOPIC, 0)) == (1, 0)
    await kit.pass_time(11_000)
    assert (len(kit.buffer), kit.offsets.query(GROUP, TOPIC, 0)) == (0, 2)
    kit.pop(invisible_time=60_000)
    await kit.stop()
    await kit.start()
    assert kit.offsets.query(GROUP, TOPIC, 0) == 3
    await kit.pass_time(60_000 + COME_BACK_MS, 2_000)
    assert names(kit.pop()) == ["b", "c"]


async def test_more_time(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, "a", "b")
    first, _ = kit.pop(invisible_time=5_000)
    reply, renewed = kit.change(first, 20_000)
    assert (reply.code, reply.ext["invisibleTime"]) == (0, "20000")
    await kit.pass_time(5_000 + COME_BACK_MS)
    assert names(kit.pop(invisible_time=60_000)) == ["b"]
    assert kit.ack(first).code == 0  # type: ignore[union-attr]  # the old receipt acknowledges nothing any more
    await kit.pass_time(12_000 + COME_BACK_MS)
    (again,) = kit.pop()
    assert (again.name, again.record.reconsume_times) == ("a", 1)
    assert kit.ack(renewed).code == 0  # type: ignore[union-attr]  # stale: changes nothing, says nothing


async def test_time_that_was_only_asked_for_is_not_counted(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, "a")
    (handed,) = kit.pop(invisible_time=5_000)
    kit.change(handed, 1_000, suspend=True)
    await kit.pass_time(1_000 + COME_BACK_MS)
    (again,) = kit.pop()
    assert again.record.reconsume_times == 0


async def test_tags_skip_what_others_want(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path)
    for number in range(6):
        kit.send(str(number), tags="even" if number % 2 == 0 else "odd")
    handed = kit.pop(exp="even", exp_type="TAG", max_msg_nums=2)
    assert names(handed) == ["0", "2"]
    assert names(kit.pop(exp="odd", exp_type="TAG")) == ["3", "5"]
    assert kit.pop(exp="none", exp_type="TAG") == []
    for one in handed:
        kit.ack(one)
    await kit.pass_time(10_000 + COME_BACK_MS)
    assert names(kit.pop(exp="odd", exp_type="TAG")) == ["3", "5"]


async def test_sql_filters_without_a_setting(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path)
    kit.send("a", tags="x")
    kit.send("b", tags="y")
    assert names(kit.pop(exp="TAGS = 'y'", exp_type="SQL92")) == ["b"]
    refused = kit.pop_reply(exp="TAGS = ", exp_type="SQL92")
    assert refused is not None and refused.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED


async def test_a_reset_wins_over_what_was_handed_out(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, "a", "b", "c", enable_pop_buffer_merge=True)
    assert len(kit.pop(invisible_time=60_000)) == 3
    kit.offsets.assign_reset(GROUP, TOPIC, 0, 1)
    kit.clock.ms += 1
    assert names(kit.pop(invisible_time=60_000)) == ["b", "c"]
    await kit.pass_time(12_000)
    assert kit.offsets.query(GROUP, TOPIC, 0) == 3


async def test_order_holds_a_queue(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, "a", "b", "c")
    handed = kit.pop(order=True, max_msg_nums=2)
    assert names(handed) == ["a", "b"]
    assert kit.pop(order=True) == []
    kit.ack(handed[0])
    assert kit.pop(order=True) == []
    kit.ack(handed[1])
    assert kit.offsets.query(GROUP, TOPIC, 0) == 2
    (last,) = kit.pop(order=True)
    assert last.name == "c"
    kit.clock.ms += 10_000
    (again,) = kit.pop(order=True)  # of its own queue, not of a retry topic
    assert (again.name, again.topic, again.record.reconsume_times) == ("c", TOPIC, 0)
    assert kit.ack(last).code == 0  # type: ignore[union-attr]
    assert kit.pop(order=True) == []


async def test_bad_receipts_change_nothing(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, "a")
    (handed,) = kit.pop(invisible_time=3_000)
    start, pop_time, invisible, revive_queue, *rest = handed.receipt.split(" ")
    for fields in (
        (start, str(int(pop_time) + 1), invisible, revive_queue),
        ("9", pop_time, invisible, revive_queue),
        (start, pop_time, invisible, "12345"),
        (start, pop_time, invisible, "-1"),
        (start, pop_time, str(1 << 60), revive_queue),
    ):
        forged = {**receipt_fields(handed), "extra_info": " ".join((*fields, *rest))}
        assert kit.ask(AckMessage(**forged)).code == 0  # type: ignore[union-attr]
        if fields[3] != revive_queue:
            assert kit.ask(ChangeInvisibleTime(**forged, invisible_time=99_000)).code == 0  # type: ignore[union-attr]
    await kit.pass_time(3_000 + COME_BACK_MS)
    assert names(kit.pop()) == ["a"]
    assert {topic for topic, queue_id, *_ in kit.store.queues() if queue_id > 7} == set()


async def test_looking_takes_nothing(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, "a", "b")
    notice = Notification(GROUP, TOPIC, -1, 0, 0)
    assert kit.ask(notice).ext["hasMsg"] == "true"  # type: ignore[union-attr]
    assert len(kit.pop()) == 2
    assert kit.ask(notice).ext["hasMsg"] == "false"  # type: ignore[union-attr]
    assert kit.ask(PollingInfo(GROUP, TOPIC, -1)).ext["pollingNum"] == "0"  # type: ignore[union-attr]
    assert kit.ask(PeekMessage(GROUP, TOPIC, 9, 1)) is None  # async: answered by a task


async def test_the_revive_offset_moves_and_is_kept(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, "a", "b", revive_queue_num=1)
    kit.pop(max_msg_nums=1, invisible_time=1_000)
    kit.pop(max_msg_nums=1, invisible_time=9_000)
    await kit.pass_time(1_000 + COME_BACK_MS)
    assert kit.offsets.query(REVIVE_GROUP, kit.revive_topic, 0) == 0
    await kit.pass_time(8_000)
    assert kit.offsets.query(REVIVE_GROUP, kit.revive_topic, 0) == 1
    await kit.stop()
    await kit.start()
    assert len(kit.pop()) == 2
    await kit.pass_time(6_000)
    assert kit.pop() == []


async def test_late_timers_bring_nothing_back_early(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, "a", "b", revive_queue_num=1)
    first, second = kit.pop(invisible_time=2_000)
    await kit.pass_time(1_500)  # the checkpoint comes out of the timer
    kit.ack(first)
    kit.ack(second)
    await kit.stop()
    kit.clock.ms += 600_000  # a long night
    await kit.start()
    for reviver in kit.revivers:
        await reviver.round()  # before the timer had its turn
    assert kit.revivers[0].pending_count == 1
    await kit.pass_time(8_000)
    assert kit.pop() == []


async def test_unacknowledged_messages_cost_no_memory(tmp_path: Path) -> None:
    """What was handed out waits in files: a thousand pops more leave memory as it was.

    With 1,000,000 messages and a broker of its own, minutes long: `python -m bench.unacknowledged`.
    """
    kit = await kit_with(tmp_path)

    async def hand_out(count: int) -> None:
        for number in range(count):
            kit.send(str(number))
            assert len(kit.pop(invisible_time=3_600_000)) == 1
        await kit.tick()

    await hand_out(300)
    tracemalloc.start()
    try:
        await hand_out(50)
        before, _ = tracemalloc.get_traced_memory()
        await hand_out(1_000)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(kit.buffer) == 0
    assert sum(reviver.pending_count for reviver in kit.revivers) == 0
    assert after - before < 1_000 * 300, "a waiting pop takes less than its own checkpoint"


async def test_the_buffer_has_a_maximum(tmp_path: Path) -> None:
    kit = await kit_with(
        tmp_path, *map(str, range(8)), enable_pop_buffer_merge=True, pop_ck_max_buffer_size=3, revive_queue_num=1
    )
    for _ in range(8):
        kit.pop(max_msg_nums=1, invisible_time=60_000)
        kit.clock.ms += 1
    assert len(kit.buffer) == 3
    assert kit.store.max_offset(TIMER_TOPIC, 0) == 5


async def test_a_topic_or_group_that_is_gone_gets_nothing_back(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, "a")
    kit.pop(invisible_time=1_000)
    kit.topics.delete(TOPIC)
    await kit.pass_time(1_000 + COME_BACK_MS)
    assert not [topic for topic in kit.topics if topic.name.startswith("%RETRY%")]


async def test_retry_topics_of_the_second_form(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, "a", enable_retry_topic_v2=True)
    kit.pop(invisible_time=1_000)
    await kit.pass_time(1_000 + COME_BACK_MS)
    found = [handed for _ in range(20) for handed in kit.pop()]  # half of the pops look into the first form
    assert [(one.name, one.topic, one.record.topic) for one in found] == [("a", f"%RETRY%{GROUP}+{TOPIC}", TOPIC)]
    assert kit.ack(found[0]).code == 0  # type: ignore[union-attr]
    await kit.pass_time(20_000, 2_000)
    assert [handed for _ in range(20) for handed in kit.pop()] == []


async def test_properties_without_room_for_marks_come_back_as_they_were(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path)
    full = {"K": "v" * (32_767 - 3)}
    kit.messages.put(InnerMessage(TOPIC, 0, b"a", full))
    kit.end_turn()
    kit.pop(invisible_time=1_000)
    await kit.pass_time(1_000 + COME_BACK_MS)
    reply = kit.pop_reply()
    assert reply is not None
    (record,) = decode_records(bytes(reply.body))
    assert (record.body, record.reconsume_times, record.properties) == (b"a", 1, full)


async def test_a_message_that_is_refused_is_tried_again_and_holds_up_nobody(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, "a", "b", "c", revive_queue_num=1)
    kit.pop(invisible_time=1_000)
    put, refused = kit.messages.put, [b"b"]

    def refuse(message: InnerMessage) -> Appended:
        if message.topic.startswith("%RETRY%") and bytes(message.body) in refused:
            raise MessageRefused("too large by now")
        return put(message)

    kit.messages.put = refuse  # type: ignore[method-assign, assignment]
    await kit.pass_time(1_000 + COME_BACK_MS)
    assert names(kit.pop(invisible_time=60_000)) == ["a", "c"]
    refused.clear()
    await kit.pass_time(10_000 + COME_BACK_MS)
    assert names(kit.pop()) == ["b"]


async def test_acknowledgements_of_one_turn_are_written_together(tmp_path: Path) -> None:
    kit = await kit_with(tmp_path, *map(str, range(8)))
    handed = kit.pop(invisible_time=5_000)
    before = kit.store.max_offset(TIMER_TOPIC, 0)
    for one in (*handed[:5], handed[0]):
        assert kit.ask(AckMessage(**receipt_fields(one)), end_turn=False) is None  # answered when it is safe
    kit.end_turn()
    assert kit.store.max_offset(TIMER_TOPIC, 0) == before + 1
    await kit.pass_time(5_000 + COME_BACK_MS)
    assert names(kit.pop()) == ["5", "6", "7"]


@pytest.mark.parametrize(("asc", "first"), [(True, "3"), (False, "0")])
async def test_the_urgent_come_first_where_priority_counts(tmp_path: Path, asc: bool, first: str) -> None:
    """The queue is the priority; `priority.factor` says for how many of a hundred pops it counts."""
    kit = await kit_with(tmp_path, priority_order_asc=asc)
    kit.topics.update(TopicConfig("urgent", 4, 4, attributes={"+message.type": "PRIORITY"}))
    for _ in range(40):
        for queue_id in range(4):
            kit.messages.put(InnerMessage("urgent", queue_id, f"{queue_id}".encode(), {}))
    kit.end_turn()

    def popped(group: str) -> str:
        wanted = {"topic": "urgent", "consumer_group": group, "max_msg_nums": 1}
        return "".join(one.name for _ in range(40) for one in kit.pop(**wanted))

    assert popped("by_priority") == first * 40
    kit.groups.update(GroupConfig("by_chance", attributes={"+priority.factor": "0"}))
    assert len(set(popped("by_chance"))) > 1


@MERGE
async def test_a_topic_that_is_made_anew_is_popped_from_its_first_message(tmp_path: Path, merge: bool) -> None:
    kit = await kit_with(tmp_path, "a", "b", "c", enable_pop_buffer_merge=merge)
    handed = kit.pop_reply(invisible_time=60_000, end_turn=False)  # not safe yet, or still in memory
    assert handed is not None
    kit.topics.delete(TOPIC)
    kit.offsets.remove_topic(TOPIC)
    kit.store.delete_topic(TOPIC)
    kit.end_turn()
    await kit.pass_time(15_000)
    kit.topics.update(TopicConfig(TOPIC, 2, 2))
    for name in "uvwxyz":
        kit.send(name)
    assert names(kit.pop()) == list("uvwxyz")
