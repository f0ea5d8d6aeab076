"""The JSON that Java peers speak: fastjson's dialect.

It differs from the standard where a Java map has keys that are not strings: whole numbers stand bare,
as in `{0:"127.0.0.1:10911"}`. Reading takes both forms and always yields text keys; writing gives the
standard form, or the dialect to peers whose version is older than `codes.VERSION_STRICT_JSON`.
Invariant: bad text raises `ProtocolError` and nothing else; nesting is bounded by orjson.

Mirrors: RemotingSerializable.
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from cometmq.errors import ProtocolError

# A string (kept as it is), or a whole-number key with the bracket or comma before it and the colon after.
# Possessive, and an unclosed string runs to the end: hostile text takes linear time.
_STRING: Final = rb'"(?:[^"\\]++|\\.)*+"?'
_STRING_OR_BARE_KEY: Final = re.compile(_STRING + rb"|([{,]\s*+)(-?\d++)(\s*+:)", re.DOTALL)
_STRING_OR_NUMBER_KEY: Final = re.compile(_STRING + rb'|([{,])"(-?\d++)":', re.DOTALL)


def loads(data: bytes | bytearray | memoryview) -> Any:
    """Read either form."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as strict:
        standard = _STRING_OR_BARE_KEY.sub(_quote_key, bytes(data))
        try:
            return orjson.loads(standard)
        except orjson.JSONDecodeError:
            raise ProtocolError(f"the text is not JSON: {strict}") from None


def _quote_key(found: re.Match[bytes]) -> bytes:
    if found.group(2) is None:
        return found.group(0)
    return b'%b"%b"%b' % found.groups()


def dumps(value: Any, *, strict: bool = True) -> bytes:
    """Write the standard form, or the dialect with bare whole-number keys."""
    data = orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
    return data if strict else _STRING_OR_NUMBER_KEY.sub(_bare_key, data)


def _bare_key(found: re.Match[bytes]) -> bytes:
    if found.group(2) is None:
        return found.group(0)
    return b"%b%b:" % found.groups()


def int_of(value: Any) -> int:
    """A JSON value where Java expects an int: null is 0, a fraction is cut off, digits in quotes count."""
    try:
        number = 0 if value is None else int(value)
    except (TypeError, ValueError, OverflowError):
        raise ProtocolError(f"{value!r:.80} where a whole number is expected") from None
    if not -0x8000_0000 <= number <= 0x7FFF_FFFF:
        raise ProtocolError(f"a number of {number.bit_length() + 1} bits where 32 fit")
    return number


def text_of(value: Any) -> str:
    """A JSON value where Java expects a String: fastjson turns it into its text."""
    if isinstance(value, str):
        return value
    return orjson.dumps(value).decode()
