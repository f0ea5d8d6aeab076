"""Values out of parsed JSON, as fastjson takes them: numbers may stand in quotes, what is missing has a default.

Invariant: a value of the wrong kind raises `ProtocolError`, and a number always fits the width it is read for.
"""

from __future__ import annotations

from typing import Any

from cometmq.errors import ProtocolError


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
    """A string, or None where there is none."""
    value = fields.get(key)
    if value is None or isinstance(value, str):
        return value
    raise ProtocolError(f"{key} is not a string")


def flag(fields: dict[str, Any], key: str) -> bool:
    """A boolean; only true, "true" and 1 are."""
    return fields.get(key) in (True, "true")
