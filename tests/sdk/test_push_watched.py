"""Who watches listeners: the message trace and OpenTelemetry."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.sdk.push_kit import new, until

from cometmq import Message, Producer, PushConsumer, ReceivedMessage, RetryLater
from cometmq.client.trace_lines import Outcome
from cometmq.model.names import TRACE_TOPIC
from cometmq.testing.local_cluster import LocalCluster


async def test_consumption_leaves_a_trace() -> None:
    group, heard = new("group"), []
    traces: list[str] = []

    async def hear(message: ReceivedMessage) -> None:
        heard.append(message)
        if len(heard) == 1:
            raise RetryLater(delay_level=1)

    async with LocalCluster() as cluster, Producer("sdk", namesrv=cluster.namesrv) as producer:
        receipt = await producer.send(Message("orders", b"1", keys="order-42"))
        consumer = PushConsumer(group, namesrv=cluster.namesrv, start_from="first", trace=True)
        async with consumer.subscribe("orders", hear):
            await until(lambda: len(heard) == 2)
        reader = PushConsumer(new("group"), namesrv=cluster.namesrv, start_from="first")
        async with reader.subscribe(TRACE_TOPIC, lambda message: traces.append(message.body.decode())):
            await until(lambda: "".join(traces).count("SubAfter") == 2)
    lines = [line.split("\x01") for line in "".join(traces).split("\x02") if line]
    assert sorted(line[0] for line in lines) == ["SubAfter", "SubAfter", "SubBefore", "SubBefore"]
    assert all(receipt.message_id in line for line in lines)
    outcomes = sorted(line[6] for line in lines if line[0] == "SubAfter")
    assert outcomes == [str(int(Outcome.SUCCESS)), str(int(Outcome.FAILED))]


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_span_joins_that_of_the_producer(is_async: bool) -> None:
    trace = pytest.importorskip("opentelemetry.trace")
    seen: list[int] = []

    def hear(messages: ReceivedMessage | Sequence[ReceivedMessage]) -> None:
        seen.append(trace.get_current_span().get_span_context().trace_id)

    async def hear_async(message: ReceivedMessage) -> None:
        hear(message)

    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with LocalCluster() as cluster, Producer("sdk", namesrv=cluster.namesrv) as producer:
        await producer.send(Message("orders", b"1", properties={"traceparent": parent}))
        consumer = PushConsumer(new("group"), namesrv=cluster.namesrv, start_from="first", spans=True)
        async with consumer.subscribe("orders", hear_async if is_async else hear):
            await until(lambda: bool(seen))
    assert [f"{number:032x}" for number in seen] == ["0af7651916cd43dd8448eb211c80319c"]
