"""A slave whose master is gone, on real brokers: it serves readers, keeps what they commit, and acts for the master."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.unit.broker.group_kit import (
    ACTING,
    SLAVE,
    SUBSCRIBE,
    A,
    B,
    Group,
    bodies,
    count,
    exchange,
    group,
    make_topic,
    said,
    send,
    until,
)

from cometmq import Decision, Message, Producer
from cometmq.broker.ha import metadata
from cometmq.broker.ha.metadata import Metadata
from cometmq.errors import PeerRefused
from cometmq.model.names import HALF_TOPIC
from cometmq.model.queue import MessageQueue
from cometmq.net.pool import connect
from cometmq.testing.chaos_proxy import ChaosProxy
from cometmq.wire import fastjson
from cometmq.wire.bodies.cluster import decode_member_group
from cometmq.wire.bodies.queues import QueuesToLock, decode_locked_queues
from cometmq.wire.bodies.route import decode_route
from cometmq.wire.codes import ResponseCode
from cometmq.wire.record import decode_records
from cometmq.wire.requests.admin import (
    CreateGroup,
    CreateTopic,
    DeleteTopicInBroker,
    GetAllGroupConfig,
    GetAllTopicConfig,
)
from cometmq.wire.requests.consume import (
    GetMaxOffset,
    OffsetReply,
    PullMessage,
    PullMessageReply,
    QueryConsumerOffset,
    UpdateConsumerOffset,
)
from cometmq.wire.requests.delay import GetAllDelayOffset
from cometmq.wire.requests.members import LockBatchMq, UnlockBatchMq
from cometmq.wire.requests.namesrv import (
    GetBrokerMemberGroup,
    GetRouteInfo,
    NotifyMinBrokerIdChange,
    UnregisterBroker,
)

SUSPEND = 2


@pytest.fixture
def quick_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slave asks for its master's tables all the time."""
    monkeypatch.setattr(metadata, "EVERY_S", 0.1)
    monkeypatch.setattr(metadata, "OFTEN_S", 0.1)


async def rounds(brokers: Group) -> None:
    """A slave has had the time to ask for tables, and to greet its master again."""
    asked: list[bool] = []
    original = Metadata.ask
    with pytest.MonkeyPatch.context() as patched:

        async def ask(self: Metadata, *, everything: bool = True) -> None:
            await original(self, everything=everything)
            asked.append(everything)

        patched.setattr(Metadata, "ask", ask)

        async def often() -> bool:
            return len(asked) > 25

        await until(often, "the slave goes round")


async def is_at_slave(brokers: Group, topic: str) -> bool:
    table = fastjson.loads((await brokers.ask(SLAVE, GetAllTopicConfig())).body)["topicConfigTable"]
    return topic in table


async def offset_is(brokers: Group, name: str, consumers: str, offset: int | None) -> bool:
    try:
        reply = await brokers.ask(name, QueryConsumerOffset("T", 0, consumers, set_zero_if_not_found=False))
    except PeerRefused:
        return offset is None
    return OffsetReply.read(reply.ext).offset == offset


def pull(offset: int, flags: int = SUBSCRIBE, wait_ms: int = 0) -> PullMessage:
    return PullMessage("g", "T", 0, offset, 32, flags, 0, wait_ms, 0, "*")


async def master_and_slave(brokers: Group, messages: int, offsets: Mapping[str, int] | None = None) -> None:
    """Both, the slave with all that the master has."""
    await brokers.start(A)
    await make_topic(brokers, A)
    for name, offset in (offsets or {}).items():
        await brokers.ask(A, CreateGroup(), fastjson.dumps({"groupName": name}))
        await brokers.ask(A, UpdateConsumerOffset("T", name, 0, offset))
    await brokers.start(SLAVE)
    for number in range(messages):
        await send(brokers, A, b"%d" % number)

    async def copied() -> bool:
        return await count(brokers, SLAVE) == messages and bool(await bodies_known(brokers))

    await until(copied, "the slave has everything")


async def bodies_known(brokers: Group) -> bool:
    """Whether the slave knows the topic: then it answers a pull, if only by sending it to the master."""
    return (await exchange(brokers, SLAVE, pull(0))).code == ResponseCode.SUCCESS


# --- a slave that only reads


async def test_readers_go_to_the_master_while_it_is_there_and_wait_at_the_slave_while_it_is_not(
    tmp_path: Path,
) -> None:
    async with group(tmp_path, slaveReadEnable="true") as brokers:
        await master_and_slave(brokers, 3)
        found = await exchange(brokers, SLAVE, pull(0))
        assert len(list(decode_records(found.body))) == 3
        assert PullMessageReply.read(found.ext).suggest_which_broker_id == 0
        sent_away = await exchange(brokers, SLAVE, pull(3, SUBSCRIBE | SUSPEND, 15_000))
        assert sent_away.code == ResponseCode.PULL_RETRY_IMMEDIATELY
        await brokers.stop(A)

        async def alone() -> bool:
            return (await exchange(brokers, SLAVE, pull(3))).code == ResponseCode.PULL_NOT_FOUND

        await until(alone, "the slave knows that it is alone")
        assert (await exchange(brokers, SLAVE, pull(99))).code == ResponseCode.PULL_NOT_FOUND
        waiting = asyncio.create_task(exchange(brokers, SLAVE, pull(3, SUBSCRIBE | SUSPEND, 15_000)))
        await asyncio.sleep(0.2)
        assert not waiting.done()
        await brokers.start(A)
        assert (await waiting).code == ResponseCode.PULL_RETRY_IMMEDIATELY


async def test_without_slave_read_enable_a_slave_serves_only_while_it_is_alone(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        await brokers.start(A)
        await make_topic(brokers, A)
        await send(brokers, A, b"0")
        await brokers.start(SLAVE)

        async def copied() -> bool:
            busy = (await exchange(brokers, SLAVE, pull(0))).code == ResponseCode.SYSTEM_BUSY
            return busy and await count(brokers, SLAVE) == 1

        await until(copied, "the slave refuses readers")
        await brokers.stop(A)

        async def served() -> bool:
            return (await exchange(brokers, SLAVE, pull(0))).code == ResponseCode.SUCCESS

        await until(served, "the slave serves readers")


async def test_offsets_committed_at_the_slave_come_back_to_the_master(tmp_path: Path) -> None:
    async with group(tmp_path, slaveReadEnable="true") as brokers:
        await master_and_slave(brokers, 5, {"g": 1, "ahead": 5})

        async def followed() -> bool:
            reply = await brokers.ask(SLAVE, QueryConsumerOffset("T", 0, "ahead"))
            return OffsetReply.read(reply.ext).offset == 5

        await until(followed, "the slave has the master's offsets")
        await brokers.stop(A)
        await brokers.ask(SLAVE, UpdateConsumerOffset("T", "g", 0, 4))
        await brokers.ask(SLAVE, UpdateConsumerOffset("T", "ahead", 0, 3))  # a consumer that reads again
        await brokers.start(A)

        async def came_back() -> bool:
            reply = await brokers.ask(A, QueryConsumerOffset("T", 0, "g"))
            return OffsetReply.read(reply.ext).offset == 4

        await until(came_back, "the master has the slave's offset")
        reply = await brokers.ask(A, QueryConsumerOffset("T", 0, "ahead"))
        assert OffsetReply.read(reply.ext).offset == 5


async def test_a_new_topic_is_known_to_the_slave_as_soon_as_its_first_message(tmp_path: Path) -> None:
    async with group(tmp_path, slaveReadEnable="true") as brokers:
        await master_and_slave(brokers, 1)
        await brokers.ask(A, CreateTopic("new", 1, 1, 6, "SINGLE_TAG"))
        await send(brokers, A, b"first", "new")
        began = time.monotonic()

        async def known() -> bool:
            request = PullMessage("g", "new", 0, 0, 1, SUBSCRIBE, 0, 0, 0, "*")
            return (await exchange(brokers, SLAVE, request)).code == ResponseCode.SUCCESS

        await until(known, "the slave serves it")
        assert time.monotonic() - began < 9  # tables are copied every 10 s otherwise


async def test_a_slave_that_refuses_a_log_takes_and_gives_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, quick_tables: None
) -> None:
    async with group(tmp_path, slaveReadEnable="true") as brokers:
        await master_and_slave(brokers, 20, {"g": 0})
        await brokers.ask(A, CreateTopic("Special", 3, 3, 6, "SINGLE_TAG"))
        await until(lambda: is_at_slave(brokers, "Special"), "the slave knows the topic")
        await brokers.stop(A)
        await brokers.ask(SLAVE, UpdateConsumerOffset("T", "g", 0, 20))
        shutil.rmtree(tmp_path / A)
        await brokers.start(A)
        await make_topic(brokers, A)
        await brokers.ask(A, CreateGroup(), fastjson.dumps({"groupName": "g"}))
        for number in range(5):
            await send(brokers, A, b"new%d" % number)
        await said(caplog, "we have what it lost")
        await rounds(brokers)
        assert await is_at_slave(brokers, "Special")
        with pytest.raises(PeerRefused):  # at 20, consumers would not hear the new ones
            await brokers.ask(A, QueryConsumerOffset("T", 0, "g", set_zero_if_not_found=False))
        assert not [one.message for one in caplog.records if "cannot copy" in one.message]


async def test_no_offset_is_given_that_the_master_does_not_have(tmp_path: Path, quick_tables: None) -> None:
    async with group(tmp_path, slaveReadEnable="true") as brokers:
        await master_and_slave(brokers, 5, {"g": 1, "h": 1})
        await brokers.stop(A)
        await brokers.ask(SLAVE, UpdateConsumerOffset("T", "g", 0, 500))
        await brokers.ask(SLAVE, UpdateConsumerOffset("T", "h", 0, 5))
        await brokers.start(A)
        await until(lambda: offset_is(brokers, A, "h", 5), "what the master has is given")
        await rounds(brokers)
        assert await offset_is(brokers, A, "g", 1)


async def test_a_dead_master_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, quick_tables: None
) -> None:
    async with group(tmp_path) as brokers:
        await master_and_slave_without_reads(brokers)
        await until(lambda: is_at_slave(brokers, "T"), "the slave follows")
        caplog.clear()
        await brokers.stop(A)
        await said(caplog, "not following the master")
        await rounds(brokers)
        assert len([one for one in caplog.records if one.levelno >= logging.WARNING]) == 1


async def test_a_topic_that_is_deleted_leaves_nothing_at_the_slave(tmp_path: Path, quick_tables: None) -> None:
    async with group(tmp_path, **ACTING) as brokers:
        await master_and_slave(brokers, 20, {"g": 20})
        await until(lambda: offset_is(brokers, SLAVE, "g", 20), "the slave has the offset")
        await brokers.ask(A, DeleteTopicInBroker("T"))

        async def forgotten() -> bool:
            return not await is_at_slave(brokers, "T") and await count(brokers, SLAVE) == 0

        await until(forgotten, "the slave forgets the topic")
        await until(lambda: offset_is(brokers, SLAVE, "g", None), "the slave forgets the offset")
        await make_topic(brokers, A)
        for number in range(25):
            await send(brokers, A, b"new%d" % number)

        async def copied() -> bool:
            return await count(brokers, SLAVE) == 25 and await bodies(brokers, SLAVE) == await bodies(brokers, A)

        await until(copied, "the slave has the new messages")
        await brokers.stop(A)
        await brokers.start(A)
        assert await offset_is(brokers, A, "g", None), "the slave has no older offset to give"


async def test_a_slave_takes_no_messages(tmp_path: Path) -> None:
    async with group(tmp_path) as brokers:
        await master_and_slave_without_reads(brokers)
        await brokers.stop(A)
        try:
            await send(brokers, SLAVE, b"no")
        except PeerRefused as refused:
            assert refused.code == ResponseCode.SYSTEM_BUSY
        assert await count(brokers, SLAVE) == 0


async def master_and_slave_without_reads(brokers: Group) -> None:
    await brokers.start(A)
    await make_topic(brokers, A)
    await brokers.start(SLAVE)


# --- a slave that acts


async def acting_group(brokers: Group) -> None:
    for name in (A, SLAVE, B):
        await brokers.start(name)
    await make_topic(brokers, A, B)
    await until(lambda: members(brokers, {0, 1}), "all are there")


async def members(brokers: Group, ids: set[int]) -> bool:
    channel = await connect(brokers.name_server.address)
    try:
        answer = await channel.call(GetBrokerMemberGroup("DefaultCluster", A))
    finally:
        channel.close()
    return set(decode_member_group(answer.body).addrs) == ids


async def replicated(brokers: Group, topic: str, queue_id: int = 0) -> None:
    async def is_there() -> bool:
        ours = await brokers.ask(A, GetMaxOffset(topic, queue_id))
        theirs = await brokers.ask(SLAVE, GetMaxOffset(topic, queue_id))
        return OffsetReply.read(theirs.ext).offset == OffsetReply.read(ours.ext).offset > 0

    await until(is_there, "the slave has it")


async def test_the_route_shows_the_slave_as_a_master_that_cannot_be_written_to(tmp_path: Path) -> None:
    async with group(tmp_path, **ACTING) as brokers:
        await acting_group(brokers)
        slave_address = brokers.running[SLAVE].address
        await brokers.stop(A)

        async def shown() -> bool:
            channel = await connect(brokers.name_server.address)
            try:
                route = decode_route((await channel.call(GetRouteInfo("T", True))).body)
            finally:
                channel.close()
            addrs = {broker.broker_name: broker.addrs for broker in route.brokers}
            perms = {queues.broker_name: queues.perm for queues in route.queues}
            return addrs.get(A) == {0: slave_address} and perms == {A: 4, B: 6}

        await until(shown, "the slave is in the master's place")


async def test_delayed_and_timed_messages_go_to_another_master_and_are_not_repeated(tmp_path: Path) -> None:
    async with group(tmp_path, **ACTING) as brokers:
        await acting_group(brokers)
        await send(brokers, A, b"level", DELAY="2")
        await send(brokers, A, b"timed", TIMER_DELAY_MS="2500")
        await send(brokers, A, b"far", TIMER_DELAY_SEC="3600")
        await replicated(brokers, "SCHEDULE_TOPIC_XXXX", 1)
        await replicated(brokers, "rmq_sys_wheel_timer")
        await brokers.stop(A)
        await until(lambda: _has(brokers, B, {b"level", b"timed"}), "both came to the other master")
        await brokers.start(A)

        async def caught_up() -> bool:
            table = fastjson.loads((await brokers.ask(A, GetAllDelayOffset())).body)["offsetTable"]
            return bool(table.get("2") == 1)

        await until(caught_up, "the master knows what its slave delivered")
        await send(brokers, A, b"after", DELAY="1")
        await until(lambda: _has(brokers, A, {b"after"}), "the master delivers again")
        assert await bodies(brokers, A) == [b"after"]
        assert sorted(await bodies(brokers, B)) == [b"level", b"timed"]


async def _has(brokers: Group, name: str, wanted: set[bytes]) -> bool:
    return set(await bodies(brokers, name)) >= wanted


async def test_open_transactions_are_asked_about_by_another_master(tmp_path: Path) -> None:
    quick = {"transactionCheckInterval": "500", "transactionTimeOut": "500"}
    async with group(tmp_path, **ACTING, **quick) as brokers:
        await acting_group(brokers)
        found = {"TRAN_MSG": "true", "PGROUP": "tp"}
        await send(brokers, A, b"half", **found)
        await replicated(brokers, HALF_TOPIC)
        namesrv = brokers.name_server.address
        async with Producer("tp", namesrv=namesrv, checker=lambda _: Decision.COMMIT) as producer:
            await producer.send(Message("T", b"plain"))
            await brokers.stop(A)
            await until(lambda: _has(brokers, B, {b"half"}), "the transaction was committed at the other master")
        await brokers.start(A)
        passed = await brokers.ask(A, QueryConsumerOffset(HALF_TOPIC, 0, "CID_RMQ_SYS_TRANS"))
        assert OffsetReply.read(passed.ext).offset == 1  # the master does not ask about it again
        assert (await bodies(brokers, A)).count(b"half") + (await bodies(brokers, B)).count(b"half") == 1


async def test_a_slave_does_not_act_beside_a_living_master(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A name server that has just started, or that the master cannot reach, knows the slave only."""
    async with group(tmp_path, **{**ACTING, "registerNameServerPeriod": "60000"}) as brokers:
        await acting_group(brokers)
        await send(brokers, A, b"early", DELAY="1")
        await replicated(brokers, "SCHEDULE_TOPIC_XXXX")
        master = brokers.running[A].address
        namesrv = await brokers.pool.channel(brokers.name_server.address)
        await namesrv.call(UnregisterBroker(A, master, "DefaultCluster", 0))
        await said(caplog, "the master lives")
        await until(lambda: _has(brokers, A, {b"early"}), "the master delivers")
        await send(brokers, A, b"late", DELAY="2")
        await replicated(brokers, "SCHEDULE_TOPIC_XXXX", 1)
        await brokers.stop(A)
        await until(lambda: _has(brokers, B, {b"late"}), "the slave acts for a master that is gone")
        assert await bodies(brokers, B) == [b"late"]


async def test_a_slave_that_lags_does_what_its_log_does_not_show_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The master says how far it is while the stream stands still: what it did since has not come here."""
    monkeypatch.setattr("cometmq.broker.ha.metadata.OFTEN_S", 0.1)
    monkeypatch.setattr("cometmq.broker.ha.metadata.EVERY_S", 0.1)
    quick = {"transactionCheckInterval": "300", "transactionTimeOut": "300"}
    async with group(tmp_path, **ACTING, **quick) as brokers:
        master = await brokers.start(A)
        async with ChaosProxy(master.ha_address) as proxy:
            await brokers.start(SLAVE, haMasterAddress=proxy.address)
            await brokers.start(B)
            await make_topic(brokers, A, B)
            await send(brokers, A, b"level", DELAY="2")
            await send(brokers, A, b"timed", TIMER_DELAY_MS="2000")
            await send(brokers, A, b"half", TRAN_MSG="true", PGROUP="tp")
            for topic, queue_id in (("SCHEDULE_TOPIC_XXXX", 1), ("rmq_sys_wheel_timer", 0), (HALF_TOPIC, 0)):
                await replicated(brokers, topic, queue_id)
            proxy.swallows = True
            namesrv = brokers.name_server.address
            async with Producer("tp", namesrv=namesrv, checker=lambda _: Decision.COMMIT) as producer:
                await producer.send(Message("T", b"plain"))  # to the one as to the other
                await producer.send(Message("T", b"plain"))
                await until(lambda: _has(brokers, A, {b"level", b"timed", b"half"}), "the master has done all")
                await until(lambda: passed(brokers, HALF_TOPIC), "the master knows the transaction to be over")
                for number in range(2):  # tables are copied one after the other: in the next round all are
                    await brokers.ask(A, CreateGroup(), fastjson.dumps({"groupName": f"mark{number}"}))
                    await until(lambda name=f"mark{number}": knows_group(brokers, SLAVE, name), "tables were copied")
                await brokers.stop(A)
                await until(lambda: _has(brokers, B, {b"level", b"timed", b"half"}), "the slave had it done again")


async def test_what_the_master_delivered_is_not_repeated_however_late_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cometmq.broker.ha.metadata.OFTEN_S", 0.1)
    monkeypatch.setattr("cometmq.broker.ha.metadata.EVERY_S", 0.1)
    async with group(tmp_path, **ACTING, timerFlushIntervalMs="3600000") as brokers:
        await acting_group(brokers)
        await send(brokers, A, b"soon", TIMER_DELAY_MS="500")
        await send(brokers, A, b"later", TIMER_DELAY_MS="6000")
        await replicated(brokers, "T")
        for number in range(3):
            await brokers.ask(A, CreateGroup(), fastjson.dumps({"groupName": f"mark{number}"}))
            await until(lambda name=f"mark{number}": knows_group(brokers, SLAVE, name), "tables were copied")
        await brokers.stop(A)
        await until(lambda: _has(brokers, B, {b"later"}), "the slave acts")
        assert await bodies(brokers, B) == [b"later"]


async def test_a_slave_that_is_told_otherwise_for_a_moment_repeats_nothing(tmp_path: Path) -> None:
    """News of the group come by several ways, and old ones last: it ends what it does and begins again."""
    many = 500
    async with group(tmp_path, **ACTING) as brokers:
        await acting_group(brokers)
        await asyncio.gather(*(send(brokers, A, b"t%d" % n, TIMER_DELAY_MS="5000") for n in range(many)))
        await asyncio.gather(*(send(brokers, A, b"h%d" % n, TRAN_MSG="true", PGROUP="tp") for n in range(many)))
        for topic in ("rmq_sys_wheel_timer", HALF_TOPIC):
            await replicated(brokers, topic)
        await brokers.stop(A)
        for topic in (HALF_TOPIC, "T"):
            await until(lambda topic=topic: has_count(brokers, topic, 1), "the slave has begun with it")
            await brokers.ask(SLAVE, NotifyMinBrokerIdChange(0, min_broker_addr="127.0.0.1:1"))
            assert await count(brokers, B, topic) < many, "it is not in the midst of it any more"
        for topic in ("T", HALF_TOPIC):
            await until(lambda topic=topic: has_count(brokers, topic, many), "the slave brings all")
        await asyncio.sleep(1.5)  # time for a repetition
        for topic in ("T", HALF_TOPIC):
            assert await count(brokers, B, topic) <= many + 2, "what was under way, each time it ended"


async def has_count(brokers: Group, topic: str, wanted: int) -> bool:
    return await count(brokers, B, topic) >= wanted


async def passed(brokers: Group, topic: str) -> bool:
    asked = await brokers.ask(A, QueryConsumerOffset(topic, 0, "CID_RMQ_SYS_TRANS"))
    return OffsetReply.read(asked.ext).offset > 0


async def knows_group(brokers: Group, name: str, wanted: str) -> bool:
    return wanted in fastjson.loads((await brokers.ask(name, GetAllGroupConfig())).body)["subscriptionGroupTable"]


async def test_in_strict_mode_a_queue_is_locked_by_most_replicas(tmp_path: Path) -> None:
    async with group(tmp_path, **ACTING, lockInStrictMode="true", totalReplicas="2") as brokers:
        await acting_group(brokers)
        queue = MessageQueue("T", A, 0)
        await until(lambda: locks(brokers, A, "one", queue), "both replicas grant the first client")
        assert not await locks(brokers, A, "two", queue)
        assert not await locks(brokers, SLAVE, "two", queue, only_this_broker=True)
        await brokers.ask(A, UnlockBatchMq(), QueuesToLock("g", "one", [queue]).encode())
        assert await locks(brokers, SLAVE, "two", queue, only_this_broker=True)
        assert not await locks(brokers, A, "one", queue)  # granted by one of two


async def locks(brokers: Group, name: str, client: str, queue: MessageQueue, *, only_this_broker: bool = False) -> bool:
    wanted = QueuesToLock("g", client, [queue], only_this_broker)
    return decode_locked_queues((await brokers.ask(name, LockBatchMq(), wanted.encode())).body) == [queue]


async def test_a_master_suggests_the_slave_to_a_reader_far_behind(tmp_path: Path) -> None:
    async with group(tmp_path, slaveReadEnable="true", accessMessageInMemoryMaxRatio="0") as brokers:
        await brokers.start(A)
        await make_topic(brokers, A)
        for number in range(40):
            await send(brokers, A, b"%d" % number)
        slow = await exchange(brokers, A, pull(0))
        assert PullMessageReply.read(slow.ext).suggest_which_broker_id == 1
        await brokers.ask(A, CreateGroup(), fastjson.dumps({"groupName": "g", "whichBrokerWhenConsumeSlowly": 2}))
        slow = await exchange(brokers, A, pull(0))
        assert PullMessageReply.read(slow.ext).suggest_which_broker_id == 2
