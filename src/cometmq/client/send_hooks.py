"""Who wants to know of every send of a producer: traces, spans, and what programs add (`Producer.add_hook`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cometmq.client.message import Message, Receipt
from cometmq.errors import CometError

if TYPE_CHECKING:  # which calls them
    from cometmq.client.sending import Sending


class SendHook(Protocol):
    """Called on the loop; must neither block nor raise."""

    def sending(self, message: Message, unique_key: str) -> Mapping[str, str]:
        """Further properties for a message that is about to leave."""

    def sent(self, sending: Sending, with_what: Receipt | CometError | None) -> None:
        """It ended: acknowledged, given up, or (None) written one-way. A batch is one, with all its unique keys."""

    def transaction_ended(self, end: TransactionEnd) -> None:
        """The producer is about to tell the broker how a transaction ended."""


class TransactionEnd(NamedTuple):
    """How a transaction ended; `broker` is an address, `is_check` whether the broker had to ask."""

    topic: str
    message_id: str
    properties: Mapping[str, str]
    broker: str | None
    state: str
    is_check: bool
