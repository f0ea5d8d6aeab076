"""Every error CometMQ raises on purpose.

    CometError
    ├── ConfigError                 a setting that cannot be used
    ├── ProtocolError               bytes from a peer that cannot be read
    ├── CorruptRecord               stored bytes that cannot be read: path, offset, why
    ├── RequestRefused              a server says no: response name and a sentence
    ├── FilterRefused               an expression that cannot be read: a sentence, and where the fault is
    ├── StoreError
    │   ├── StoreLocked             another process has the store open
    │   ├── StoreNotWritable        fenced after a failed sync, or the disk is full
    │   ├── QueueDamaged            a unit of a queue names no message, and the log is being searched for it
    │   ├── UnitsDoubted            what was read is not what a queue names
    │   └── MessageRefused          a message that may not be stored
    ├── PeerError
    │   ├── PeerUnreachable         no connection
    │   │   └── BrokerUnreachable   none to the address that the name server told: the usual one of containers
    │   ├── PeerTimeout             connected, but no answer in time
    │   └── PeerRefused             the peer answered with an error code
    └── ClientError                 of programs that use the SDK
        ├── InvalidArgument         refused before the network; a ValueError too
        │   ├── InvalidName         of a topic or a group
        │   └── InvalidMessage      body, tags, keys or properties
        ├── ClientClosed            used before it was entered or after it was closed
        ├── ClientForked            used in another process than the one it was made in
        ├── TopicNotFound           no name server knows the topic, and it is not created by sending
        ├── SendFailed              a message that was not acknowledged: topic, broker, what to do
        ├── SendsFailed             some of many
        ├── RequestTimedOut         the message was sent, but nobody replied
        ├── OffsetsLost             messages that were to be read are gone from the broker
        └── ServerTooOld            the broker's version lacks what was asked for

`response` names the answer that a server gives (a member of `wire.codes.ResponseCode`; names, because
numbers are written in that one file). `retriable` says whether the same call may succeed later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar


class CometError(Exception):
    """The root of the tree."""

    response: str = "SYSTEM_ERROR"
    retriable: ClassVar[bool] = False
    fields: Mapping[str, str] | None = None


class ConfigError(CometError):
    """A setting that cannot be used; the message names the key and what it may be."""


class ProtocolError(CometError):
    """Bytes that are not what the protocol says. The connection they came on cannot be trusted further."""


class CorruptRecord(CometError):
    """Stored bytes that are not a record."""

    def __init__(self, path: str, offset: int, why: str) -> None:
        super().__init__(f"{path or 'buffer'} at byte {offset}: {why}")
        self.path = path
        self.offset = offset
        self.why = why


class RequestRefused(CometError):
    """A request that was understood and is not granted."""

    def __init__(self, response: str, remark: str, fields: Mapping[str, str] | None = None) -> None:
        super().__init__(remark)
        self.response = response
        self.fields = fields  # of the answer, where its header tells more than the code


class FilterRefused(CometError):
    """A filter expression that cannot be read; `at` is the character where the fault is, counted from 0."""

    response = "SUBSCRIPTION_PARSE_FAILED"

    def __init__(self, remark: str, at: int) -> None:
        super().__init__(remark)
        self.at = at


class StoreError(CometError):
    """The store cannot do what was asked."""


class StoreLocked(StoreError):
    """Another process, CometMQ's or Java's, has this store open."""


class StoreNotWritable(StoreError):
    """The store takes no writes now; reads go on."""

    response = "SERVICE_NOT_AVAILABLE"
    retriable = True


class QueueDamaged(StoreError):
    """A unit of a queue names no message; the one that it should name is still looked for in the log."""

    retriable = True


class UnitsDoubted(StoreError):
    """At a place that a queue names stands something else; its units are to be looked at before it is read again."""

    retriable = True


class MessageRefused(StoreError):
    """A message that breaks a limit of the format or of the configuration."""

    response = "MESSAGE_ILLEGAL"


class PeerError(CometError):
    """Something went wrong between this process and another one."""

    retriable = True


class PeerUnreachable(PeerError):
    """No connection could be made, or it was lost while a call waited on it."""


class PeerTimeout(PeerError):
    """The peer did not answer in time."""


class PeerRefused(PeerError):
    """The peer answered with a response code other than success."""

    retriable = False

    def __init__(self, code: int, remark: str, peer: str) -> None:
        super().__init__(f"{peer} answered code {code}: {remark}")
        self.code = code
        self.remark = remark
        self.peer = peer


class BrokerUnreachable(PeerUnreachable):
    """The name server told an address of the broker, and nothing answers there."""

    def __init__(self, broker: str, address: str, name_servers: str, why: str) -> None:
        super().__init__(
            f"broker {broker} cannot be reached: the name server ({name_servers}) told us {address}, and from "
            f"here {why}. If the broker runs, it advertises an address that this machine cannot reach (as in "
            f"containers and behind NAT): set brokerIP1 in its configuration to one that it can, and start it again."
        )
        self.broker = broker
        self.address = address


class ClientError(CometError):
    """Something that a program which uses the SDK should know."""


class InvalidArgument(ClientError, ValueError):
    """Refused before anything was sent; the sentence says what is allowed."""


class InvalidName(InvalidArgument):
    """Not a name of a topic or a group."""


class InvalidMessage(InvalidArgument):
    """A message that no broker would take, or that would not arrive as it was meant."""


class ClientClosed(ClientError):
    """A producer or consumer that is not open (any more)."""


class ClientForked(ClientError):
    """A producer or consumer that was made before `fork`, used after it."""


class TopicNotFound(ClientError):
    """A topic without route."""

    retriable = True

    def __init__(self, topic: str, name_servers: str, why: str) -> None:
        super().__init__(f"the topic {topic} is not known to the name servers ({name_servers}): {why}")
        self.topic = topic


class SendFailed(ClientError):
    """A message that no broker acknowledged. It may still have been stored, if the last fault was a timeout."""

    retriable = True

    def __init__(self, topic: str, broker: str | None, attempts: int, why: str, *, code: int | None = None) -> None:
        where = f" on broker {broker}" if broker else ""
        super().__init__(f"the message to {topic} was not acknowledged{where} after {attempts} attempt(s): {why}")
        self.topic = topic
        self.broker = broker
        self.attempts = attempts
        self.code = code


class SendsFailed(ClientError):
    """Some of many sends failed; `failures` holds each `Message` that was not acknowledged, with its error."""

    def __init__(self, failures: list[tuple[Any, Exception]], sent: int) -> None:
        super().__init__(
            f"{len(failures)} of {len(failures) + sent} messages were not sent; the first: {failures[0][1]}"
        )
        self.failures = failures  # of `Any`, as messages are declared floors above
        self.sent = sent


class OffsetsLost(ClientError):
    """Messages between two offsets of a queue that should be read and are not there (any more)."""

    def __init__(self, topic: str, broker: str, queue: int, start: int, end: int, why: str) -> None:
        super().__init__(
            f"messages were lost: offsets {start} to {end} of queue {queue} of {topic} on {broker} cannot be read; "
            f"{why}. They have expired, or the topic was made anew. To go on without them, set failOnDataLoss=false"
        )
        self.topic = topic
        self.broker = broker
        self.queue = queue
        self.start = start
        self.end = end


class RequestTimedOut(ClientError):
    """The request was stored, but no reply came in time: is a consumer there that replies?"""

    retriable = True


class ServerTooOld(ClientError):
    """The broker does not know a request that this needs."""


class ConsumeTimedOut(ClientError):
    """A listener took longer than the consume timeout."""

    retriable = True


class RetryLater(ClientError):
    """A listener raises it to say more than any other error says: the message is to come again, and when.

    `delay_level` is one of the broker's delay levels, 0 leaves it to the broker, -1 makes a dead letter at once.
    `only` are those of a batch that failed; the others are done with.
    """

    retriable = True

    def __init__(
        self, why: str = "later", *, delay_level: int | None = None, only: Iterable[object] | None = None
    ) -> None:
        super().__init__(why)
        self.delay_level = delay_level
        self.only = None if only is None else list(only)
