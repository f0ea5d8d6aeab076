"""What went wrong with a pipeline, as one sentence that begins with the file and line of the user.

An error in a Python file is found in its traceback, also in one that Spark tells as text, of a function that ran in a
task. What else Spark finds later, when it resolves or runs a flow, names the flow: the place where that was defined is
remembered, or looked for in the SQL files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from cometmq.errors import CometError

TEXT_SIZE_MAX: Final = 800

_OWN: Final = re.compile(r"cometmq\.errors\.\w+: (.+)")
_SPARK_LINE: Final = re.compile(r"\(line (\d+), pos \d+\)")
_STREAM: Final = re.compile(r"\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ", re.DOTALL)
_SQL: Final = "== SQL ==\n"
_SQL_POINTER: Final = re.compile(r"-*\^\^\^")
_TRACE: Final = "Traceback (most recent call last):\n"
_FRAME: Final = re.compile(r'^ +File "(.+?)", line (\d+), in ', re.MULTILINE)
_RAISED: Final = re.compile(r"^([A-Za-z_][\w.]*)(?:: (.*))?$", re.MULTILINE)
_LASTING: Final = re.compile(r"SQLSTATE: (?:22|38|42)")  # wrong values, what user's functions raise, wrong SQL
_NO_WORKER: Final = "failed to connect back"
_NOISE: Final = ("JVM stacktrace", "== SQL", "SQLSTATE", "\n\tat ", "If you did not qualify", "Traceback (most recent")


class SourcePlace(NamedTuple):
    """Where in the user's files something stands."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def sentence_of(text: str) -> str:
    """What a long message of Spark says, without what surrounds it; an error of our own comes out as it was told."""
    own = _OWN.findall(text)
    if own:
        return str(own[-1]).strip()
    raised = _RAISED.search(text.rpartition(_TRACE)[2]) if _TRACE in text else None
    if raised is not None:
        return " ".join(raised[0].split())[:TEXT_SIZE_MAX]
    text = _STREAM.sub("", text)
    for noise in _NOISE:
        if noise in text.lstrip():
            text = text.lstrip().partition(noise)[0]
    return " ".join(text.split())[:TEXT_SIZE_MAX].rstrip(" ;.")


def place_of(error: BaseException, root: Path) -> SourcePlace | None:
    """The innermost line of the user's files that an error went through."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return SourcePlace(error.filename, error.lineno)
    found = None
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if Path(file).is_relative_to(root):
            found = SourcePlace(file, trace.tb_lineno)
        trace = trace.tb_next
    return found


def place_in_trace(text: str, root: Path) -> SourcePlace | None:
    """The innermost line of the user's files in the last traceback that a text holds."""
    frames = _FRAME.findall(text.rpartition(_TRACE)[2]) if _TRACE in text else []
    own = [SourcePlace(file, int(line)) for file, line in frames if Path(file).is_relative_to(root)]
    return own[-1] if own else None


def told(error: BaseException) -> str:
    """An error in a sentence; one of Python's with its name, as what it says is often but a word."""
    text = sentence_of(str(error))
    name = type(error).__name__
    if isinstance(error, CometError) or text.startswith(("[", "(")):
        return text
    return f"{name}: {text}" if text else name


def place_in_sql(error: BaseException, file: Path) -> SourcePlace:
    """Where in an SQL file Spark stumbled: it counts lines from the begin of the statement, which it tells."""
    text = str(error)
    found = _SPARK_LINE.search(text)
    if found is None:
        return SourcePlace(str(file), 1)
    told_lines = [line for line in text.partition(_SQL)[2].split("\n") if not _SQL_POINTER.fullmatch(line)]
    statement = "\n".join(told_lines)
    bare = statement.strip()
    whole = file.read_text(encoding="utf-8")
    at = whole.find(bare) if bare else -1
    if at < 0:
        return SourcePlace(str(file), int(found[1]))
    blank = statement.partition(bare)[0].count("\n")
    return SourcePlace(str(file), whole.count("\n", 0, at) + int(found[1]) - blank)


def is_lasting(text: str) -> bool:
    """Whether a flow that is tried again fails again: what may pass in our sources and sinks was waited for there."""
    return _NO_WORKER not in text and (_OWN.search(text) is not None or _LASTING.search(text) is not None)


def place_of_flow(name: str, places: Mapping[str, SourcePlace], files: Iterable[Path]) -> SourcePlace | None:
    """Where the flow or table of this name is defined; Spark tells names with catalog and schema before them."""
    short = name.rpartition(".")[2].strip("`'")
    if short in places:
        return places[short]
    named = rf"\b(?:TABLE|VIEW|FLOW)\s+(?:IF\s+NOT\s+EXISTS\s+)?`?(?:\w+\.)*`?{re.escape(short)}\b"
    defined = re.compile(named, re.IGNORECASE)
    for file in files:
        if file.suffix == ".sql":
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                if defined.search(line):
                    return SourcePlace(str(file), number)
    return None
