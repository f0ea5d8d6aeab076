"""Apache RocketMQ 4.9: the same tests for what it has, and clear words for what it has not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.original import Cluster
from tests.original.jars import OLDER_VERSION
from tests.original.registration import registered
from tests.sdk.conftest import SHARED_SETTINGS, Server
from tests.sdk.push_kit import Heard, consuming, new, producing, send, until
from tests.sdk.test_lite_pull import (
    test_assign_and_seek,
    test_members_divide_the_queues,
    test_subscribe_and_commit,
)
from tests.sdk.test_producer import (
    test_one,
    test_one_way,
    test_order_by_key,
    test_request_and_reply,
    test_transactions,
    test_window,
)
from tests.sdk.test_push import (
    test_a_batch_that_fails_in_part,
    test_broadcasting_goes_to_all_and_on_from_a_file,
    test_everything_once_and_on_from_there,
    test_orderly_while_members_come_and_go,
    test_retries_and_dead_letters,
    test_tags_and_sql,
    test_two_members_share_and_one_leaves,
)

from cometmq import Compression, Message, Producer, SimpleConsumer
from cometmq.errors import SendFailed, ServerTooOld

__all__ = [
    "test_a_batch_that_fails_in_part",
    "test_assign_and_seek",
    "test_broadcasting_goes_to_all_and_on_from_a_file",
    "test_everything_once_and_on_from_there",
    "test_members_divide_the_queues",
    "test_one",
    "test_one_way",
    "test_order_by_key",
    "test_orderly_while_members_come_and_go",
    "test_request_and_reply",
    "test_retries_and_dead_letters",
    "test_subscribe_and_commit",
    "test_tags_and_sql",
    "test_transactions",
    "test_two_members_share_and_one_leaves",
    "test_window",
]


@pytest.fixture(scope="module")
def older_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("older")
    with Cluster("java", folder, conf=SHARED_SETTINGS, version=OLDER_VERSION) as running:
        asyncio.run(registered(running.namesrv_addr))
        yield running


@pytest.fixture
def server(older_cluster: Cluster) -> Server:
    return Server("older", older_cluster.namesrv_addr)


async def test_delay_levels(server: Server) -> None:
    topic, heard = new(), Heard()
    async with producing(server, topic) as producer, consuming(server, new("group"), topic, heard):
        await producer.send(Message(topic, b"1"), delay=1)
        await send(producer, topic, [0])
        await until(lambda: heard.numbers == [0, 1])


async def test_batches(server: Server) -> None:
    """Their messages have one id then: 4.9 gives them all that of the batch, whatever they had."""
    topic = new()
    async with Producer("sdk", namesrv=server.namesrv) as producer:
        await producer.create_topic(topic, queues=1)
        receipts = await producer.send_batch(Message(topic, b"%d" % number + b" " * 20_000) for number in range(120))
    found = await server.read(topic, 120)
    # Requests that are under way together it may store in another order (`test_batches_are_split` says the same).
    stored = {message.offset_message_id: int(message.body) for message in found}
    assert [stored[receipt.offset_message_id] for receipt in receipts] == list(range(120))
    assert len(found) == len(stored) == 120


async def test_too_large(server: Server) -> None:
    async with Producer("sdk", namesrv=server.namesrv, max_message_size=8 << 20, compress_over=None) as producer:
        with pytest.raises(SendFailed, match="maxMessageSize"):
            await producer.send(Message(new(), b"x" * (5 << 20)), timeout_ms=10_000)


async def test_delays_that_it_does_not_know(server: Server) -> None:
    """It takes the property for the program's own, and delivers at once."""
    topic = new()
    async with Producer("sdk", namesrv=server.namesrv) as producer:
        receipt = await producer.send(Message(topic, b"1"), delay=timedelta(hours=1))
        assert receipt.recall_handle is None
        await server.read(topic)


@pytest.mark.parametrize("kind", list(Compression))
async def test_packed(server: Server, kind: Compression) -> None:
    topic, body = new(), b"comet " * 10_000
    async with Producer("sdk", namesrv=server.namesrv, compression=kind) as producer:
        await producer.send(Message(topic, body))
    (message,) = await server.read(topic)
    assert message.body == body


async def test_no_pop(server: Server) -> None:
    topic = new()
    async with producing(server, topic), SimpleConsumer(new("group"), namesrv=server.namesrv) as one:
        with pytest.raises(ServerTooOld, match="since 5"):
            await one.pop(topic)
