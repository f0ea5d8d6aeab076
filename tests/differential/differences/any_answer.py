"""What may differ in every answer, whatever was asked."""

from __future__ import annotations

from typing import Final

from .entry import Difference, Entry
from .values import both, is_whole


def _same_failure(difference: Difference) -> bool:
    code = difference.java_answer.get("code")
    return code == difference.comet_answer.get("code") and code != 0


ENTRIES: Final = (
    Entry(
        title="Language",
        kind="difference",
        why="The language field of an answer says PYTHON, not JAVA.",
        where="language",
    ),
    Entry(
        title="Header form of answers",
        kind="difference",
        why="CometMQ answers in the header form of the request. The original answers in the one it is set to, "
        "JSON by default. Clients read both.",
        where="form",
    ),
    Entry(
        title="Error sentences",
        kind="difference",
        why="The code is the same; the remark is a sentence, where the original may give the name of an exception and "
        "its stack.",
        where="remark",
        when=_same_failure,
    ),
    Entry(
        title="Success without a sentence",
        kind="difference",
        why="The original leaves its initial remark, `not set any response code`, in some answers of success.",
        where="remark",
        when=lambda one: one.java == "not set any response code" and one.comet is None,
    ),
    Entry(
        title="Headers that cannot be read",
        kind="difference",
        why="A connection that sends a header of an unknown form, or a binary header that is cut short, is closed. "
        "The original leaves it open and silent.",
        where="end",
        when=lambda one: (one.java, one.comet) == ("open", "closed"),
    ),
    Entry(
        title="Data versions",
        kind="mask",
        why="They count changes, and hold the time of the last one.",
        where="body.json.*ataVersion.*",
        when=both(is_whole),
    ),
)
