"""The one list of what may differ between the answers of Apache RocketMQ 5.5.0 and of CometMQ, and why.

Answers are compared field by field; each difference must be covered by an entry here. An entry is either a *mask*
(a value that differs between any two servers: a time, a port) or a *difference* that is meant.
`docs/reference/compat.md` is rendered from this list (`python -m tests.differential.compat`), and an entry that
covers nothing fails the tests, so the list cannot grow stale.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
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


_ADDRESS = re.compile(r"127\.0\.0\.1:\d+\Z")
_TIME_MIN_MS: Final = 1_600_000_000_000


def _both(check: Callable[[Any], bool]) -> Callable[[Difference], bool]:
    return lambda difference: check(difference.java) and check(difference.comet)


def _is_address(value: Any) -> bool:
    return isinstance(value, str) and _ADDRESS.match(value) is not None


def _is_time(value: Any) -> bool:
    return isinstance(value, int | str) and str(value).isdigit() and int(value) > _TIME_MIN_MS


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | str) and str(value).isdigit()


def _is_message_id(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9A-F]{32}(,[0-9A-F]{32})*", value) is not None


def _same_failure(difference: Difference) -> bool:
    code = difference.java_answer.get("code")
    return code == difference.comet_answer.get("code") and code != 0


def _is_made_up_id(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9A-F]{32}|[0-9A-F]{56}", value) is not None


ENTRIES: Final = (
    Entry("language", "difference", "CometMQ is written in Python and says so.", "language"),
    Entry(
        "form of the reply",
        "difference",
        "CometMQ answers in the header form of the request; the original in its own "
        "(JSON unless set otherwise). Every client reads both.",
        "form",
    ),
    Entry(
        "success without a sentence",
        "difference",
        "Where the original leaves the text it starts with, CometMQ says nothing.",
        "remark",
        when=lambda one: one.java == "not set any response code" and one.comet is None,
    ),
    Entry(
        "ids made up by the broker",
        "mask",
        "For a message that came without one: address, process and time are in it.",
        "ext.transactionId",
        when=_both(_is_made_up_id),
    ),
    Entry(
        "ids made up by the broker, stored",
        "mask",
        "The same in the stored message.",
        "body.*.properties.UNIQ_KEY",
        when=_both(_is_made_up_id),
    ),
    Entry(
        "place in the log that the index knows",
        "mask",
        "It depends on everything else the broker has stored.",
        "ext.indexLastUpdatePhyoffset",
        when=_both(_is_whole),
    ),
    Entry(
        "error sentences",
        "difference",
        "The code says what happened; the sentence says it better than the name of an "
        "exception, and never shows a stack.",
        "remark",
        when=_same_failure,
    ),
    Entry(
        "message ids",
        "mask",
        "They hold the port of the broker and the place in its log.",
        "ext.msgId",
        when=_both(_is_message_id),
    ),
    Entry("times of storing and birth", "mask", "Two servers store at two times.", "body.*Time", when=_both(_is_time)),
    Entry("times in fields", "mask", "Two servers store at two times.", "ext.*imestamp", when=_both(_is_time)),
    Entry(
        "addresses in messages",
        "mask",
        "Each server and each connection has its own port.",
        "body.*Host",
        when=_both(_is_address),
    ),
    Entry("addresses", "mask", "Each server has its own port.", "body.json.*", when=_both(_is_address)),
    Entry(
        "place in the log",
        "mask",
        "It depends on everything else the broker has stored.",
        "body.*physicalOffset",
        when=_both(_is_whole),
    ),
    Entry(
        "data versions",
        "mask",
        "They count the changes since the start, and hold its time.",
        "body.json.*ataVersion.*",
        when=_both(_is_whole),
    ),
)


def differences(code: int, variant: str, java: dict[str, Any], comet: dict[str, Any]) -> Iterator[Difference]:
    """Every place where two answers differ, whether covered or not; of two that ended differently, only the codes."""
    if java.get("code") != comet.get("code"):
        yield Difference(code, variant, "code", _ending(java), _ending(comet), java, comet)
        return
    for where, left, right in _walk("", java, comet):
        yield Difference(code, variant, where, left, right, java, comet)


def _ending(answer: dict[str, Any]) -> str:
    return f"{answer.get('code', answer.get('answer'))} {answer.get('remark') or ''}".strip()


def covering(difference: Difference) -> Entry | None:
    """The first entry that covers a difference."""
    return next((entry for entry in ENTRIES if entry.covers(difference)), None)


def _walk(path: str, left: Any, right: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted({*left, *right}):
            yield from _walk(f"{path}.{key}" if path else key, left.get(key, NOTHING), right.get(key, NOTHING))
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for number, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from _walk(f"{path}.{number}", one, other)
    elif left != right or type(left) is not type(right):
        yield path, left, right


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:150]}… ({len(text)} characters)"
