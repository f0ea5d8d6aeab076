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
    │   └── MessageRefused          a message that may not be stored
    └── PeerError
        ├── PeerUnreachable         no connection
        ├── PeerTimeout             connected, but no answer in time
        └── PeerRefused             the peer answered with an error code

`response` names the answer that a server gives (a member of `wire.codes.ResponseCode`; names, because
numbers are written in that one file). `retriable` says whether the same call may succeed later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


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
