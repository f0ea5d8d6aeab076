"""Values out of parsed JSON, as fastjson takes them: numbers may stand in quotes, what is missing has a default.

Invariant: a value of the wrong kind raises `ProtocolError`, and a number always fits the width it is read for.
"""

from __future__ import annotations

from typing import Any, Final

from cometmq.errors import ProtocolError
from cometmq.wire import fastjson

_FLAGS: Final = {"true": True, "1": True, "y": True, "false": False, "0": False, "n": False, "": False}


def as_object(value: Any, what: str) -> dict[str, Any]:
    """A JSON object."""
    if isinstance(value, dict):
        return value
    raise ProtocolError(f"{what} is not a JSON object")


def as_list(value: Any, what: str) -> list[Any]:
    """A JSON array."""
    if isinstance(value, list):
        return value
    raise ProtocolError(f"{what} is not a JSON array")


def whole(fields: dict[str, Any], key: str, default: int = 0, *, bits: int = 32) -> int:
    """A whole number of Java's int, or long with bits=64."""
    value = fields.get(key)
    return default if value is None else as_whole(value, key, bits=bits)


def as_whole(value: Any, what: str, *, bits: int = 32) -> int:
    limit = 1 << (bits - 1)
    if isinstance(value, str) and value.lstrip("-").isascii() and value.lstrip("-").isdigit() and len(value) < 21:
        value = int(value)
    if type(value) is not int or not -limit <= value < limit:
        raise ProtocolError(f"{what} is not a whole number of {bits} bits")
    return value


def text(fields: dict[str, Any], key: str) -> str | None:
    """A string, or None where there is none; what is no string is taken as its JSON text."""
    value = fields.get(key)
    return None if value is None else fastjson.text_of(value)


def flag(fields: dict[str, Any], key: str) -> bool:
    """A boolean, perhaps in quotes or as 0 or 1; null and what is missing are false."""
    value = fields.get(key)
    if value is None or isinstance(value, bool):
        return bool(value)
    found = _FLAGS.get(str(value).lower())
    if found is None:
        raise ProtocolError(f"{key} is neither true nor false")
    return found


def choice(fields: dict[str, Any], key: str) -> str | None:
    """The name of one of a few ways; anything but text is refused."""
    value = fields.get(key)
    if value is None or isinstance(value, str):
        return value
    raise ProtocolError(f"{key} is not a name")
