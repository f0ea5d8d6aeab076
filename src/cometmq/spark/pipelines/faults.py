"""What went wrong with a pipeline, as one sentence that begins with the file and line of the user.

An error in a Python file is found in its traceback. What Spark finds later, when it resolves or runs a flow, names the
flow: the place where that was defined is remembered, or looked for in the SQL files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

TEXT_SIZE_MAX: Final = 800

_OWN: Final = re.compile(r"cometmq\.errors\.\w+: (.+)")
_SPARK_LINE: Final = re.compile(r"\(line (\d+), pos \d+\)")
_STREAM: Final = re.compile(r"\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ", re.DOTALL)
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


def place_in_sql(error: BaseException, file: Path) -> SourcePlace:
    """Where in an SQL file Spark stumbled."""
    found = _SPARK_LINE.search(str(error))
    return SourcePlace(str(file), int(found[1]) if found else 1)


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
