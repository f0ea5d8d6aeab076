"""The one list of what may differ between the answers of Apache RocketMQ 5.5.0 and of CometMQ, and why.

Answers are compared field by field; each difference must be covered by an entry here. An entry is either a *mask*
(a value that differs between any two servers: a time, a port) or a *difference* that is meant.
`docs/reference/compat.md` is rendered from this list (`python -m tests.differential.compat`), and an entry that
covers nothing fails the tests, so the list cannot grow stale. One file has the entries of one subject.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from . import any_answer, batches, groups, messages, namesrv, pop, replication, runtime, transactions, waiting
from .entry import NOTHING, Difference, Entry

__all__ = ["ENTRIES", "Difference", "Entry", "covering", "differences"]

ENTRIES: Final[tuple[Entry, ...]] = (
    *any_answer.ENTRIES,
    *namesrv.ENTRIES,
    *messages.ENTRIES,
    *waiting.ENTRIES,
    *groups.ENTRIES,
    *transactions.ENTRIES,
    *batches.ENTRIES,
    *pop.ENTRIES,
    *replication.ENTRIES,
    *runtime.ENTRIES,
)


def covering(difference: Difference) -> Entry | None:
    """The first entry that covers a difference."""
    return next((entry for entry in ENTRIES if entry.covers(difference)), None)


def differences(code: int, variant: str, java: dict[str, Any], comet: dict[str, Any]) -> Iterator[Difference]:
    """Every place where two answers differ, whether covered or not; of two that ended differently, only the codes."""
    if java.get("code") != comet.get("code"):
        yield Difference(code, variant, "code", _ending(java), _ending(comet), java, comet)
        return
    for where, left, right in _walk("", java, comet):
        yield Difference(code, variant, where, left, right, java, comet)


def _ending(answer: dict[str, Any]) -> str:
    return f"{answer.get('code', answer.get('answer'))} {answer.get('remark') or ''}".strip()


def _walk(path: str, left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}):
            yield from _walk(f"{path}.{key}" if path else key, left.get(key, NOTHING), right.get(key, NOTHING))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from _walk(f"{path}.{number}", one, other)
    elif left != right or type(left) is not type(right):
        yield path, left, right
