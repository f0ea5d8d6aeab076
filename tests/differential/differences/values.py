"""What a value is, for masks: they let values differ, not their kinds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from .entry import Difference

_ADDRESS = re.compile(r"127\.0\.0\.1:\d+\Z")
_TIME_MIN_MS: Final = 1_600_000_000_000


def both(check: Callable[[Any], bool]) -> Callable[[Difference], bool]:
    return lambda difference: check(difference.java) and check(difference.comet)


def variant(pattern: str) -> Callable[[Difference], bool]:
    return lambda one: re.match(pattern, one.variant) is not None


def is_address(value: Any) -> bool:
    return isinstance(value, str) and _ADDRESS.match(value) is not None


def is_time(value: Any) -> bool:
    return isinstance(value, int | str) and str(value).isdigit() and int(value) > _TIME_MIN_MS


def is_readable_time(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"20\d\d-\d\d-\d\d#\d\d:\d\d:\d\d:\d{3}", value) is not None


def is_whole(value: Any) -> bool:
    return isinstance(value, int | str) and str(value).isdigit()


def is_message_id(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9A-F]{32}(,[0-9A-F]{32})*", value) is not None


def is_made_up_id(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9A-F]{32}|[0-9A-F]{56}", value) is not None
