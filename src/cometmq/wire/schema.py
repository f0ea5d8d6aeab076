"""Headers, declared once.

    @request(RequestCode.GET_MAX_OFFSET, reply=OffsetReply)
    class GetMaxOffset(Header):
        topic: str
        queue_id: Int32
        committed: bool = True
        group: str | None = named("consumerGroup", default=None)

A field's name on the wire is its own in camelCase unless `named`. A field without a default must be there;
one with a default takes it when it is missing. A value of the wrong type counts as missing, as it does in
Java, where the decoder logs it and leaves the field as it was.

Mirrors: CommandCustomHeader, RemotingCommand.decodeCommandCustomHeaderDirectly.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import (
    Annotated,
    Any,
    ClassVar,
    Self,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from cometmq.errors import RequestRefused
from cometmq.wire.codes import RequestCode
from cometmq.wire.command import Body, Command

Int32 = Annotated[int, 32]
"""Java's int; a plain `int` is Java's long."""

_WHOLE = re.compile(r"[+-]?\d+\Z")


def named(wire_name: str, *, default: Any = MISSING) -> Any:
    """A field whose name on the wire is not its own in camelCase."""
    return field(default=default, metadata={"wire": wire_name})


def _whole(bits: int) -> Callable[[str], int]:
    limit = 1 << (bits - 1)

    def read(text: str) -> int:
        if not (text.isdigit() or _WHOLE.match(text)):
            raise ValueError(text)
        value = int(text)
        if not -limit <= value < limit:
            raise ValueError(text)
        return value

    return read


def _true(text: str) -> bool:
    return text.lower() == "true"


def _write_bool(value: bool) -> str:
    return "true" if value else "false"


_READERS: dict[Any, Callable[[str], Any]] = {str: str, int: _whole(64), bool: _true, float: float}
_WRITERS: dict[Any, Callable[[Any], str]] = {bool: _write_bool}


def _plain(hint: Any) -> tuple[Any, Callable[[str], Any]]:
    """The bare type of an annotation and the function that reads it from text."""
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is Annotated:
        bare, bits = get_args(hint)
        return bare, _whole(bits)
    return hint, _READERS[hint]


def wire_name(attribute: str) -> str:
    """`queue_id` → `queueId`."""
    first, *rest = attribute.split("_")
    return first + "".join(word.capitalize() for word in rest)


@dataclass_transform(field_specifiers=(named, field))
class Header:
    """The declared fields of one request or reply."""

    code: ClassVar[RequestCode]
    reply: ClassVar[type[Header]]
    _plan: ClassVar[list[tuple[str, str, Callable[[str], Any], Callable[[Any], str], Any]]]

    def __init_subclass__(cls) -> None:
        # Header classes are many and their instances short-lived: slots would need a second class each.
        dataclass(cls)
        hints = get_type_hints(cls, include_extras=True)
        cls._plan = []
        for item in fields(cls):  # type: ignore[arg-type]
            bare, read = _plain(hints[item.name])
            name = item.metadata.get("wire") or wire_name(item.name)
            cls._plan.append((item.name, name, read, _WRITERS.get(bare, str), item.default))

    @classmethod
    def read(cls, ext: Mapping[str, str]) -> Self:
        """Read the fields of a command."""
        values = []
        for _, name, read, _, default in cls._plan:
            text = ext.get(name)
            if text is None:
                if default is MISSING:
                    raise RequestRefused("SYSTEM_ERROR", f"the custom field <{name}> is null")
                values.append(default)
                continue
            try:
                values.append(read(text))
            except ValueError:
                if default is MISSING:
                    raise RequestRefused("SYSTEM_ERROR", f"the custom field <{name}> cannot be {text[:80]!r}") from None
                values.append(default)
        return cls(*values)

    def write(self) -> dict[str, str]:
        """The fields as a command carries them; those that are None are left out."""
        ext = {}
        for attribute, name, _, write, _ in self._plan:
            value = getattr(self, attribute)
            if value is not None:
                ext[name] = write(value)
        return ext

    def command(self, body: Body = b"") -> Command:
        """A request command with these fields."""
        return Command(self.code, ext=self.write(), body=body)


class Empty(Header):
    """A header without fields."""


REQUESTS: dict[RequestCode, type[Header]] = {}
"""Every declared request, by its code."""

_H = TypeVar("_H", bound=type[Header])


def request(code: RequestCode, reply: type[Header] = Empty) -> Callable[[_H], _H]:
    """Declare a header to be the request of `code`, answered by `reply`."""

    def declare(cls: _H) -> _H:
        cls.code = code
        cls.reply = reply
        REQUESTS[code] = cls
        return cls

    return declare
