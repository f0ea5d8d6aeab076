"""Who watches what programs take by themselves: the message trace and OpenTelemetry."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.sdk.push_kit import new, until

from cometmq import LitePullConsumer, Message, Producer, PushConsumer, SimpleConsumer
from cometmq.client.trace_lines import Outcome
from cometmq.errors import InvalidArgument
from cometmq.model.names import TRACE_TOPIC
from cometmq.testing.local_cluster import LocalCluster

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def traced(cluster: LocalCluster, lines: int) -> list[list[str]]:
    """The lines of the trace topic, once there are so many."""
    bodies: list[str] = []
    reader = PushConsumer(new("group"), namesrv=cluster.namesrv, start_from="first")
    async with reader.subscribe(TRACE_TOPIC, lambda message: bodies.append(message.body.decode())):
        await until(lambda: "".join(bodies).count("\x02") >= lines)
    return [line.split("\x01") for line in "".join(bodies).split("\x02") if line]


async def test_a_pop_leaves_a_trace() -> None:
    async with LocalCluster() as cluster, Producer("sdk", namesrv=cluster.namesrv) as producer:
        done, late = [await producer.send(Message("orders", b"1", keys=key)) for key in ("done", "late")]
        async with SimpleConsumer("g", namesrv=cluster.namesrv, start_from="first", trace=True) as simple:
            found = []
            while len(found) < 2:
                found += await simple.pop("orders", invisible=timedelta(seconds=2))
            await next(message for message in found if message.keys == ["done"]).ack()
            await until(lambda: simple.in_flight == 0)
        lines = await traced(cluster, 4)
    assert sorted(line[0] for line in lines) == ["SubAfter", "SubAfter", "SubBefore", "SubBefore"]
    outcomes = {line[2]: int(line[6]) for line in lines if line[0] == "SubAfter"}
    assert outcomes == {done.message_id: Outcome.SUCCESS, late.message_id: Outcome.TIME_OUT}


async def test_a_poll_leaves_a_trace() -> None:
    async with LocalCluster() as cluster, Producer("sdk", namesrv=cluster.namesrv) as producer:
        sent = [await producer.send(Message(topic, b"1")) for topic in ("orders", "bills", "orders")]
        async with LitePullConsumer("g", namesrv=cluster.namesrv, start_from="first", trace=True) as puller:
            await puller.subscribe("orders")
            await puller.subscribe("bills")
            found = []
            while len(found) < 3:
                found += await puller.poll()
        lines = await traced(cluster, 6)
    assert sorted(line[0] for line in lines) == ["SubAfter"] * 3 + ["SubBefore"] * 3
    assert {line[2] for line in lines if line[0] == "SubAfter"} == {receipt.message_id for receipt in sent}


async def test_a_span_is_linked_with_that_of_the_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry import trace
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)

    def last() -> ReadableSpan:
        return kept.get_finished_spans()[-1]

    async with LocalCluster() as cluster, Producer("sdk", namesrv=cluster.namesrv) as producer:
        await producer.send(Message("orders", b"1", properties={"traceparent": PARENT}))
        ways = {"namesrv": cluster.namesrv, "start_from": "first", "spans": True}
        async with SimpleConsumer("a", **ways) as simple:  # type: ignore[arg-type]
            await simple.pop("orders")
            pop = last()
        async with SimpleConsumer("b", **ways) as simple:  # type: ignore[arg-type]
            await anext(simple.receive("orders"))
            receive = last()
        async with LitePullConsumer("c", **ways) as puller:  # type: ignore[arg-type]
            await puller.subscribe("orders")
            await puller.poll()
            poll = last()
    for span, group in ((pop, "a"), (receive, "b"), (poll, "c")):
        (link,) = span.links
        assert f"{link.context.trace_id:032x}" in PARENT
        assert span.attributes is not None
        assert (span.name, span.attributes["messaging.consumer.group.name"]) == ("receive orders", group)
        assert span.start_time is not None and span.end_time is not None and span.start_time < span.end_time


@pytest.mark.parametrize("kind", [SimpleConsumer, LitePullConsumer])
def test_without_opentelemetry(kind: type[SimpleConsumer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry", None)
    with pytest.raises(InvalidArgument, match="otel"):
        kind("g", namesrv="127.0.0.1:9876", spans=True)
