"""Values as the original has them, and how it compares them.

    str     every property          int     Integer, a whole constant of 32 bits
    bool    TRUE, FALSE             Long    a whole constant of 64 bits
    None    absent, NULL            float   Double

A text becomes what it is compared with: an Integer does not accept "5.5", a Double does. Where the original throws,
`NotComparable` is raised, and the message does not match.

Mirrors: ComparisonExpression.__compare, Integer.valueOf, Long.valueOf, Double.valueOf.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import copysign, inf, isnan
from typing import Final

INTEGER_MIN, INTEGER_MAX = -(1 << 31), (1 << 31) - 1
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1
_LONG_DIGITS_MAX: Final = 19
_PLAIN_DIGITS_MAX: Final = 9
_SHORT_MAX: Final = 64

# Java trims whatever is not above a space.
_BLANKS: Final = "".join(map(chr, range(0x21)))
_HEX = "0[xX](?:[0-9a-fA-F]+\\.?|[0-9a-fA-F]*\\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
_DOUBLE: Final = re.compile(
    rf"[+-]?(?:(?P<name>NaN|Infinity)|(?P<hex>{_HEX})[fFdD]?"
    r"|(?P<decimal>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?)"
)
_WHOLE: Final = re.compile(r"[+-]?(\d+)")


class Long(int):
    """A whole number that Java keeps in 64 bits."""


Value = str | int | float | None  # bool and Long are ints


class NotComparable(Exception):
    """Two values that the original refuses to compare. It is raised per message, so it says little."""


def read_integer(text: str) -> int:
    """Integer.valueOf."""
    if len(text) <= _PLAIN_DIGITS_MAX and text.isascii() and text.isdigit():
        return int(text)
    return _whole(text, INTEGER_MIN, INTEGER_MAX)


def read_long(text: str) -> int:
    """Long.valueOf."""
    return _whole(text, LONG_MIN, LONG_MAX)


def _whole(text: str, low: int, high: int) -> int:
    found = _WHOLE.fullmatch(text) if len(text) <= _SHORT_MAX else _long_match(text)
    # Java looks at UTF-16 units, so digits beyond them are none.
    if found is None or (not text.isascii() and max(text) > "\uffff"):
        raise NotComparable("no whole number")
    digits = found[1].lstrip("0") or "0"
    number = int(digits) if len(digits) <= _LONG_DIGITS_MAX else high + 2
    if text[0] == "-":
        number = -number
    if not low <= number <= high:
        raise NotComparable("out of range")
    return number


_long_match = lru_cache(16)(_WHOLE.fullmatch)


def read_double(text: str) -> float:
    """Double.valueOf."""
    number = _double(text) if len(text) <= _SHORT_MAX else _double_of_long(text)
    if number is None:
        raise NotComparable("no number")
    return number


def _double(text: str) -> float | None:
    trimmed = text.strip(_BLANKS)
    found = _DOUBLE.fullmatch(trimmed)
    if found is None:
        return None
    if found["hex"] is not None:
        try:
            number = float.fromhex(found["hex"])
        except OverflowError:
            number = inf
    else:
        number = float(found["name"] or found["decimal"])
    return -number if trimmed[0] == "-" else number


# Of a long text an expression may ask many times; it is read once.
_double_of_long = lru_cache(16)(_double)


def compare(left: Value, right: Value) -> int:
    """Negative, 0 or positive; both must be there. What can never be equal is -1, as in the original."""
    ours, theirs = type(left), type(right)
    if ours is not theirs:
        if ours is str:
            assert isinstance(left, str)
            if theirs is bool:
                left = len(left) == 4 and left.lower() == "true"
            elif theirs is int:
                left = read_integer(left)
            elif theirs is Long:
                left = read_long(left)
            else:
                left = read_double(left)
        elif ours is bool:
            if theirs is str:
                raise NotComparable("TRUE and FALSE cannot stand left of a text")  # a cast that fails in the original
            return -1
        elif theirs is bool:
            return -1
        elif theirs is str:
            assert isinstance(right, str)
            right = read_integer(right) if ours is int else read_long(right) if ours is Long else read_double(right)
        elif ours is float or theirs is float:
            left, right = float(left), float(right)  # type: ignore[arg-type]
    if isinstance(left, float) and isinstance(right, float):
        return compare_doubles(left, right)
    return (left > right) - (left < right)  # type: ignore[operator]


def compare_doubles(left: float, right: float) -> int:
    """Double.compare: NaN is above everything and equal to itself, -0.0 is below 0.0."""
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right:
        return 0 if left else int(copysign(1, left) > copysign(1, right)) - int(copysign(1, left) < copysign(1, right))
    return isnan(left) - isnan(right)


def compare_in_order(left: Value, right: Value) -> int:
    """For `<` and its kin: two texts are compared as Doubles or not at all."""
    if isinstance(left, str) and isinstance(right, str):
        return compare_doubles(read_double(left), read_double(right))
    return compare(left, right)
