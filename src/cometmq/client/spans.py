"""OpenTelemetry: a span for each send and each message that is worked on, joined by the property `traceparent`.

    producer.add_hook(SendSpans())                       # or Producer(…, spans=True)

    async def bill(message: ReceivedMessage) -> None:
        with processing(message, group="billing"): ...   # a child of the span in which it was sent

Consumers that are asked for messages have a span for each call that gave some, linked with those of the sends.

Needs `pip install 'cometmq[otel]'`; which spans are kept, and where they go, is the affair of the program's own
OpenTelemetry set-up. A message that has a `traceparent` already keeps it. Spans that are open stand in a table of at
most `OPEN_MAX`; names and attributes are those of the semantic conventions for messaging.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from cometmq.client.message import Message, Receipt, ReceivedMessage
from cometmq.client.send_hooks import TransactionEnd
from cometmq.client.sending import Sending
from cometmq.errors import CometError, InvalidArgument

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

OPEN_MAX: Final = 16_384
TRACE_PARENT: Final = "traceparent"
_SYSTEM: Final = {"messaging.system": "rocketmq"}


def _opentelemetry() -> Any:
    """The package's `trace` module and the propagator of `traceparent`, imported when they are first needed."""
    try:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        raise InvalidArgument("spans need OpenTelemetry: pip install 'cometmq[otel]'") from None
    return trace, TraceContextTextMapPropagator()


def _tracer(provider: TracerProvider | None) -> Tracer:
    trace, _ = _opentelemetry()
    made: Tracer = trace.get_tracer("cometmq", tracer_provider=provider)
    return made


class SendSpans:
    """A hook of a producer (see `SendHook`): one PRODUCER span per message, a child of the program's current one."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._trace, self._propagator = _opentelemetry()
        self._tracer = _tracer(provider)
        self._open: dict[str, Span] = {}

    def sending(self, message: Message, unique_key: str) -> Mapping[str, str]:
        attributes: dict[str, str | int] = {
            **_SYSTEM,
            "messaging.operation.type": "send",
            "messaging.destination.name": message.topic,
            "messaging.message.id": unique_key,
            "messaging.message.body.size": len(message.body),
        }
        if message.tags is not None:
            attributes["messaging.rocketmq.message.tag"] = message.tags
        kind = self._trace.SpanKind.PRODUCER
        span = self._tracer.start_span(f"send {message.topic}", kind=kind, attributes=attributes)
        if len(self._open) >= OPEN_MAX:
            self._open.pop(next(iter(self._open))).end()
        self._open[unique_key] = span
        carrier: dict[str, str] = {}
        if TRACE_PARENT not in message.properties:
            self._propagator.inject(carrier, self._trace.set_span_in_context(span))
        return carrier

    def sent(self, sending: Sending, with_what: Receipt | CometError | None) -> None:
        for unique_key in sending.unique_key.split(","):
            span = self._open.pop(unique_key, None)
            if span is None:
                continue
            if isinstance(with_what, Receipt):
                span.set_attribute("messaging.destination.partition.id", str(with_what.queue_id))
            elif with_what is not None:
                span.record_exception(with_what)
                span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, str(with_what)))
            span.end()

    def transaction_ended(self, end: TransactionEnd) -> None:
        """The half message has its span; its end is not a message."""


@contextmanager
def processing(message: ReceivedMessage, *, group: str, provider: TracerProvider | None = None) -> Iterator[Span]:
    """The program's work on a message as a CONSUMER span, the current one while the block runs."""
    trace, propagator = _opentelemetry()
    attributes: dict[str, str | int] = {
        **_SYSTEM,
        "messaging.operation.type": "process",
        "messaging.destination.name": message.topic,
        "messaging.destination.partition.id": str(message.queue_id),
        "messaging.consumer.group.name": group,
        "messaging.message.id": message.message_id,
        "messaging.message.body.size": len(message.record.body),
    }
    span_name, kind = f"process {message.topic}", trace.SpanKind.CONSUMER
    parent = propagator.extract(message.properties)
    with _tracer(provider).start_as_current_span(span_name, parent, kind=kind, attributes=attributes) as span:
        yield span


def received(
    messages: Sequence[ReceivedMessage], *, group: str, since_ns: int, provider: TracerProvider | None = None
) -> None:
    """A call that gave these messages, as a span from when it began until now."""
    trace, propagator = _opentelemetry()
    contexts = [
        trace.get_current_span(propagator.extract(message.properties)).get_span_context() for message in messages
    ]
    topic = messages[0].topic
    attributes: dict[str, str | int] = {
        **_SYSTEM,
        "messaging.operation.type": "receive",
        "messaging.destination.name": topic,
        "messaging.consumer.group.name": group,
        "messaging.batch.message_count": len(messages),
    }
    links = [trace.Link(context) for context in contexts if context.is_valid]
    kind = trace.SpanKind.CLIENT
    _tracer(provider).start_span(
        f"receive {topic}", kind=kind, attributes=attributes, links=links, start_time=since_ns
    ).end()
