"""A difference between two answers, and an entry of the list that may cover it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, Literal


class _Nothing:
    def __repr__(self) -> str:
        return "(nothing)"


NOTHING: Final = _Nothing()
"""The value of a field that one of the two answers does not have."""


@dataclass(frozen=True)
class Difference:
    """One place where two answers differ. `where` is a dotted path in the answer."""

    code: int
    variant: str
    where: str
    java: Any
    comet: Any
    java_answer: dict[str, Any]
    comet_answer: dict[str, Any]

    def __str__(self) -> str:
        return f"[{self.variant}] {self.where}: Java {_short(self.java)} · CometMQ {_short(self.comet)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:150]}… ({len(text)} characters)"


@dataclass(frozen=True)
class Entry:
    """What may differ."""

    title: str
    kind: Literal["mask", "difference"]
    why: str
    where: str
    """A pattern of paths, `*` for anything."""
    codes: frozenset[int] = frozenset()
    """Only in answers to these requests; empty means all."""
    when: Callable[[Difference], bool] = lambda difference: True

    def covers(self, difference: Difference) -> bool:
        return (
            (not self.codes or difference.code in self.codes)
            and fnmatchcase(difference.where, self.where)
            and self.when(difference)
        )
