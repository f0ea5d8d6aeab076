"""CometMQ: Apache RocketMQ's architecture in Python.

    from cometmq import Message, Producer

The names below are the SDK's; each is imported when it is first asked for, so `import cometmq` costs nothing.
`ls` teaches the design; ARCHITECTURE.md tells it. Imports between the sub-packages go down only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from cometmq.client.compression import Compression as Compression
    from cometmq.client.consumer_functions import consumer as consumer
    from cometmq.client.consumer_functions import run as run
    from cometmq.client.lite_pull import LitePullConsumer as LitePullConsumer
    from cometmq.client.log_handler import TopicHandler as TopicHandler
    from cometmq.client.message import Message as Message
    from cometmq.client.message import Receipt as Receipt
    from cometmq.client.message import ReceivedMessage as ReceivedMessage
    from cometmq.client.message import SendStatus as SendStatus
    from cometmq.client.producer import Producer as Producer
    from cometmq.client.push_consumer import PushConsumer as PushConsumer
    from cometmq.client.simple_consumer import SimpleConsumer as SimpleConsumer
    from cometmq.client.transaction import Decision as Decision
    from cometmq.client.transaction import Transaction as Transaction
    from cometmq.errors import CometError as CometError
    from cometmq.errors import RetryLater as RetryLater
    from cometmq.model.queue import MessageQueue as MessageQueue
    from cometmq.net.tls import Tls as Tls
    from cometmq.wire.signing import Credentials as Credentials

__version__ = "0.1.0"

# Name → module. Whoever adds one adds it above too, for type checkers; a test holds both together.
_PUBLIC: Final = {
    "CometError": "cometmq.errors",
    "Compression": "cometmq.client.compression",
    "Credentials": "cometmq.wire.signing",
    "Decision": "cometmq.client.transaction",
    "LitePullConsumer": "cometmq.client.lite_pull",
    "Message": "cometmq.client.message",
    "MessageQueue": "cometmq.model.queue",
    "Producer": "cometmq.client.producer",
    "PushConsumer": "cometmq.client.push_consumer",
    "Receipt": "cometmq.client.message",
    "ReceivedMessage": "cometmq.client.message",
    "RetryLater": "cometmq.errors",
    "SendStatus": "cometmq.client.message",
    "SimpleConsumer": "cometmq.client.simple_consumer",
    "Tls": "cometmq.net.tls",
    "TopicHandler": "cometmq.client.log_handler",
    "Transaction": "cometmq.client.transaction",
    "consumer": "cometmq.client.consumer_functions",
    "run": "cometmq.client.consumer_functions",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'cometmq' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
