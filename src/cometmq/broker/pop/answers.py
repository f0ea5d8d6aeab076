"""A pop under way, and its answer: the messages as slices of the log, or read in a thread if they are old.

Those of retry topics are encoded anew, under the name of their own topic and with their receipt.

Mirrors: PopMessageProcessor.processRequest, its second half.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Final

from cometmq.broker.config import BrokerConfig
from cometmq.broker.pop import handle
from cometmq.broker.pop.checks import Checked
from cometmq.broker.pop.recoding import recoded
from cometmq.broker.pop.warming import Warm
from cometmq.errors import UnitsDoubted
from cometmq.net.routes import Call
from cometmq.store.engine import Store
from cometmq.store.reader import Matches, ReadResult, ReadStatus
from cometmq.wire.codes import SerializeType
from cometmq.wire.command import Body
from cometmq.wire.reply_template import ReplyTemplate
from cometmq.wire.requests.pop import PopMessage, PopMessageReply

_JSON: Final = int(SerializeType.JSON)
_FOUND_REPLY: Final = ReplyTemplate(
    {},
    ("popTime", "invisibleTime", "reviveQid", "restNum", "startOffsetInfo", "msgOffsetInfo"),
    ReadStatus.FOUND.name,
    texts=("startOffsetInfo", "msgOffsetInfo"),
)


@dataclass(slots=True)
class Part:
    """What one queue gave."""

    topic: str
    queue_id: int
    start_offset: int
    found: ReadResult
    is_retry: bool


@dataclass(slots=True)
class Pop:
    """A pop under way."""

    request: PopMessage
    checked: Checked
    matches: Matches | None
    pop_time_ms: int
    revive_queue: int
    parts: list[Part] = field(default_factory=list)
    start_offsets: list[str] = field(default_factory=list)
    msg_offsets: list[str] = field(default_factory=list)
    order_counts: list[str] = field(default_factory=list)
    count: int = 0
    rest_count: int = 0
    held_back_count: int = 0  # a rest, too, but one that nobody can come back for yet
    is_cold: bool = False
    warm: Warm = field(default_factory=dict)  # what was read before, so that an expression can be asked about it


def header_of(pop: Pop) -> PopMessageReply:
    """What the answer tells beside the messages."""
    return PopMessageReply(
        pop_time=pop.pop_time_ms,
        invisible_time=pop.request.invisible_time,
        revive_qid=pop.revive_queue,
        rest_num=pop.rest_count + pop.held_back_count,
        start_offset_info=";".join(pop.start_offsets),
        msg_offset_info=";".join(pop.msg_offsets),
        order_count_info=";".join(pop.order_counts) if pop.request.order else None,
    )


class PopAnswers:
    """Sends what was taken."""

    def __init__(self, config: BrokerConfig, store: Store, readers: Executor | None) -> None:
        self._config = config
        self._store = store
        self._readers = readers

    def send(self, pop: Pop, call: Call) -> None:
        """Answer with what was taken."""
        if not pop.is_cold:
            self._send(pop, call, [self._store.slices(part.found.ranges) for part in pop.parts])
        else:
            self._load(pop, call)

    def _load(self, pop: Pop, call: Call) -> None:
        load = self._store.load_found
        loop = asyncio.get_running_loop()
        reading = loop.run_in_executor(self._readers, lambda: [load(part.found) for part in pop.parts])
        reading.add_done_callback(lambda done: self._send_cold(pop, call, done))

    def _send_cold(self, pop: Pop, call: Call, done: asyncio.Future[list[list[bytes]]]) -> None:
        if done.cancelled():
            return
        fault = done.exception()
        if isinstance(fault, UnitsDoubted):
            try:
                for part in pop.parts:
                    part.found = self._store.mended(part.found)
                self._load(pop, call)
            except Exception as error:  # a callback has nobody above it
                call.refuse(error)
        elif isinstance(fault, Exception):
            call.refuse(fault)
        else:
            self._send(pop, call, done.result())

    def _send(self, pop: Pop, call: Call, loaded: Sequence[Sequence[Body]]) -> None:
        pieces: list[Body] = []
        for part, views in zip(pop.parts, loaded, strict=True):
            if part.is_retry and not self._config.pop_response_return_actual_retry_topic:
                pieces += self._under_own_topic(pop, part, views)
            else:
                pieces += views
        size = sum(map(len, pieces))
        header = header_of(pop)
        if call.command.serialize == _JSON and not pop.request.order:
            frame = _FOUND_REPLY.fill(
                call.command.opaque,
                header.pop_time,
                header.invisible_time,
                header.revive_qid,
                header.rest_num,
                (header.start_offset_info or "").encode(),
                (header.msg_offset_info or "").encode(),
                body_size=size,
            )
            call.reply_frame(frame, *pieces)
        else:
            call.reply_parts(header, pieces, size, remark=ReadStatus.FOUND.name)

    def _under_own_topic(self, pop: Pop, part: Part, views: Sequence[Body]) -> list[Body]:
        """Messages of a retry topic as they look to a consumer of the topic itself, each with its receipt."""
        request, broker_name = pop.request, self._config.broker_name

        def receipt_of(queue_offset: int) -> str:
            return handle.render(
                part.start_offset,
                pop.pop_time_ms,
                request.invisible_time,
                pop.revive_queue,
                part.topic,
                broker_name,
                part.queue_id,
                queue_offset,
            )

        return [piece for view in views for piece in recoded(view, request.topic.encode(), receipt_of)]
