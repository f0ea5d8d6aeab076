"""OpenTelemetry spans of sends and of work on messages, joined over the wire."""

from __future__ import annotations

import sys

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tests.sdk.conftest import Server

from cometmq import Message, Producer
from cometmq.client.spans import SendSpans, processing
from cometmq.errors import InvalidArgument, SendFailed
from cometmq.testing.local_cluster import LocalCluster


class Spans:
    """A set-up of OpenTelemetry that keeps spans in memory."""

    def __init__(self) -> None:
        self._kept = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._kept))
        self.tracer = self.provider.get_tracer("tests")

    @property
    def ended(self) -> list[ReadableSpan]:
        return list(self._kept.get_finished_spans())


async def test_one_line_from_the_caller_to_the_consumer() -> None:
    spans = Spans()
    async with LocalCluster() as cluster, Producer("sdk", namesrv=cluster.namesrv) as producer:
        producer.add_hook(SendSpans(spans.provider))
        with spans.tracer.start_as_current_span("order") as order:
            receipt = await producer.send(Message("orders", b"1", tags="created"))
        (message,) = await Server("comet", cluster.namesrv).read("orders")
        with processing(message, group="billing", provider=spans.provider):
            pass
    send, caller, process = spans.ended
    assert (send.name, send.kind, caller.name) == ("send orders", SpanKind.PRODUCER, "order")
    assert (process.name, process.kind) == ("process orders", SpanKind.CONSUMER)
    assert send.parent == order.get_span_context()
    assert process.parent is not None and process.parent.span_id == send.context.span_id
    assert len({span.context.trace_id for span in (send, caller, process)}) == 1
    assert send.attributes is not None and send.attributes["messaging.message.id"] == receipt.message_id


async def test_batches_oneway_and_failures() -> None:
    spans = Spans()
    async with LocalCluster() as cluster, Producer("sdk", namesrv=cluster.namesrv, retries=0) as producer:
        hook = SendSpans(spans.provider)
        producer.add_hook(hook)
        await producer.send_batch([Message("orders", b"1"), Message("orders", b"2")])
        await producer.send_oneway(Message("orders", b"3"))
        given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        await producer.send(Message("orders", b"4", properties={"traceparent": given}))
        found = await Server("comet", cluster.namesrv).read("orders", 4)
        assert len({message.properties["traceparent"] for message in found}) == 4
        assert [one.properties["traceparent"] for one in found if one.body == b"4"] == [given]
        await cluster.stop_broker()
        with pytest.raises(SendFailed):
            await producer.send(Message("orders", b"5"), timeout_ms=300)
    assert len(spans.ended) == 5
    assert [span.status.status_code for span in spans.ended].count(StatusCode.ERROR) == 1
    assert not hook._open


async def test_without_opentelemetry_the_option_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(InvalidArgument, match=r"cometmq\[otel\]"):
        Producer("sdk", namesrv="127.0.0.1:9876", spans=True)
