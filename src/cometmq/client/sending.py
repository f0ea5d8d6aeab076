"""One send under way, from the message that is prepared to the receipt or the error it ends with.

The future is the program's own, and a `Sending` is what the connection knows as waiter: the answer goes straight into
the future, so an answered send costs no task, no timer and no second future. Pure state: `sender.py` decides.

Invariants: it ends once, with a receipt or an error; who listens hears of the end even if nobody waits any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from cometmq.client.message import Message, Receipt
from cometmq.errors import CometError
from cometmq.model.queue import MessageQueue
from cometmq.net.channel import Channel
from cometmq.wire.command import Command
from cometmq.wire.requests.send import SendBatchMessage, SendMessageV2, SendReplyMessageV2

if TYPE_CHECKING:
    from cometmq.client.sender import Sender

Kind = type[SendMessageV2]
MESSAGE: Final = SendMessageV2
BATCH: Final = SendBatchMessage
REPLY: Final = SendReplyMessageV2

Listener = Callable[["Sending", "Receipt | CometError"], None]


class Sending:
    """One send under way; also what a connection knows as the waiter for its answer."""

    __slots__ = (
        "answer", "attempt", "attempt_until", "attempts", "body", "born_ms", "channel", "flag", "future", "kind",
        "listener", "message", "opaque", "pinned", "properties", "queue", "sender", "started", "sys_flag", "topic",
        "unique_key", "until",
    )  # fmt: skip

    def __init__(
        self,
        sender: Sender,
        topic: str,
        body: bytes,
        properties: str,
        unique_key: str,
        born_ms: int,
        sys_flag: int = 0,
        flag: int = 0,
        kind: Kind = MESSAGE,
        pinned: MessageQueue | None = None,
        attempts: int = 1,
        timeout_s: float = 3.0,
        message: Message | None = None,
    ) -> None:
        self.sender = sender
        self.message = message  # None of a batch, which is many
        self.listener: Listener | None = None
        self.topic = topic
        self.body = body
        self.properties = properties
        self.unique_key = unique_key
        self.sys_flag = sys_flag
        self.flag = flag
        self.kind = kind
        self.pinned = pinned
        self.attempts = attempts
        self.attempt = 0
        self.queue: MessageQueue | None = pinned
        self.channel: Channel | None = None
        self.answer: Command | None = None
        self.opaque = 0
        self.born_ms = born_ms
        self.future: asyncio.Future[Any] = sender.loop.create_future()
        self.started = sender.loop.time()
        self.until = self.attempt_until = self.started + timeout_s

    # --- what the connection calls

    def done(self) -> bool:
        return self.future.done()

    def set_result(self, answer: Command) -> None:
        self.sender.answered(self, answer)

    def set_exception(self, lost: CometError) -> None:
        self.sender.failed(self, lost)

    # --- what the sender calls

    def end(self, with_what: Receipt | CometError) -> None:
        """Tell who waits; a `listener` hears of it at once, without another turn of the loop."""
        future = self.future
        if not future.done():
            if isinstance(with_what, Receipt):
                future.set_result(with_what)
            else:
                future.set_exception(with_what)
                if self.listener is not None:
                    future.exception()  # it is not lost: the listener has it
        if self.listener is not None:
            self.listener(self, with_what)
        for hook in self.sender.hooks:
            hook.sent(self, with_what)
