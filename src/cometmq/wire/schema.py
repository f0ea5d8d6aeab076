"""Headers, declared once.

    @request(RequestCode.GET_MAX_OFFSET, reply=OffsetReply)
    class GetMaxOffset(Header):
        topic: str
        queue_id: Int32
        committed: bool = True
        group: str | None = named("consumerGroup", default=None)

A field's name on the wire is its own in camelCase unless `named`. A field without a default must be there;
one with a default takes it when it is missing. A value of the wrong type counts as missing, as it does in
Java, where the decoder logs it and leaves the field as it was; a `strict` header refuses it, as do the few that
Java decodes by hand for speed.

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

from cometmq.config import java_key
from cometmq.errors import RequestRefused
from cometmq.wire.codes import RequestCode
from cometmq.wire.command import Body, Command

Int32 = Annotated[int, 32]
"""Java's int; a plain `int` is Java's long."""

_WHOLE = re.compile(r"[+-]?\d+\Z")


def named(wire_name: str, *, default: Any = MISSING, missing: Any = MISSING) -> Any:
    """A field whose name on the wire is not its own in camelCase; `missing` is as in `lenient`."""
    return field(default=default, metadata={"wire": wire_name, "missing": missing})


def lenient(missing: Any) -> Any:
    """A field that everyone should send, and that is read as `missing` from those who do not."""
    return field(metadata={"missing": missing})


def _whole(bits: int) -> Callable[[str], int]:
    limit = 1 << (bits - 1)
    digits_sure = len(str(limit)) - 1  # so few digits always fit

    def read(text: str) -> int:
        if text.isdecimal() and len(text) <= digits_sure:
            return int(text)
        if not _WHOLE.match(text):
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


_Reader = tuple[dict[str, Any], Callable[[str], Any]]
# How a type is read: the answers for its usual texts, and the function for all others. Text is not read at all.
_WHOLES: dict[str, Any] = {str(number): number for number in range(-1, 1024)}
_INT32: _Reader = (_WHOLES, _whole(32))
_READERS: dict[Any, _Reader | None] = {
    str: None,
    int: (_WHOLES, _whole(64)),
    bool: ({"true": True, "false": False}, _true),
    float: ({}, float),
}
_WRITERS: dict[Any, Callable[[Any], str] | None] = {str: None, bool: _write_bool}


def _plain(hint: Any) -> tuple[Any, _Reader | None]:
    """The bare type of an annotation and how it is read from text."""
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
    if get_origin(hint) is Annotated:
        return int, _INT32
    return hint, _READERS[hint]


wire_name = java_key  # `queue_id` → `queueId`: fields are spelt as settings are


@dataclass_transform(field_specifiers=(named, lenient, field))
class Header:
    """The declared fields of one request or reply."""

    code: ClassVar[RequestCode]
    reply: ClassVar[type[Header]]
    strict: ClassVar[bool] = False
    _texts: ClassVar[list[tuple[str, str]]]
    _others: ClassVar[list[tuple[str, str, dict[str, Any], Callable[[str], Any]]]]
    _writing: ClassVar[list[tuple[str, str, Callable[[Any], str] | None]]]
    _defaults: ClassVar[dict[str, Any]]

    def __init_subclass__(cls) -> None:
        # Header classes are many and their instances short-lived: slots would need a second class each.
        dataclass(cls)
        hints = get_type_hints(cls, include_extras=True)
        cls._texts, cls._others, cls._writing, cls._defaults = [], [], [], {}
        for item in fields(cls):  # type: ignore[arg-type]
            bare, read = _plain(hints[item.name])
            name = item.metadata.get("wire") or wire_name(item.name)
            if read is None:
                cls._texts.append((item.name, name))
            else:
                cls._others.append((item.name, name, *read))
            cls._writing.append((item.name, name, _WRITERS.get(bare, str)))
            default = item.metadata.get("missing", MISSING)
            if default is MISSING:
                default = item.default
            if default is not MISSING:
                cls._defaults[item.name] = default

    @classmethod
    def read(cls, ext: Mapping[str, str]) -> Self:
        """Read the fields of a command."""
        values = cls._defaults.copy()
        for attribute, name in cls._texts:
            if name in ext:
                values[attribute] = ext[name]
        for attribute, name, known, read in cls._others:
            if name in ext:
                text = ext[name]
                if text in known:
                    values[attribute] = known[text]
                else:
                    try:
                        values[attribute] = read(text)
                    except ValueError:
                        if cls.strict:
                            raise cls._fault(name, ext) from None
        if len(values) < len(cls._writing):
            raise cls._missing(ext, values)
        # Filled directly: the generated __init__ would take as long as all of the above.
        header = object.__new__(cls)
        header.__dict__ = values
        return header

    @classmethod
    def _missing(cls, ext: Mapping[str, str], values: Mapping[str, Any]) -> RequestRefused:
        return cls._fault(next(name for attribute, name, _ in cls._writing if attribute not in values), ext)

    @classmethod
    def _fault(cls, name: str, ext: Mapping[str, str]) -> RequestRefused:
        what = "is null" if name not in ext else f"cannot be {ext[name][:80]!r}"
        return RequestRefused("SYSTEM_ERROR", f"the custom field <{name}> {what}")

    def write(self) -> dict[str, str]:
        """The fields as a command carries them; those that are None are left out."""
        ext = {}
        values = self.__dict__
        for attribute, name, write in self._writing:
            value = values[attribute]
            if value is not None:
                ext[name] = value if write is None else write(value)
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
