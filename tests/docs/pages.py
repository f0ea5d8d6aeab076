"""The code blocks of a page, and their execution one after the other, as a reader would do it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).parents[2] / "docs"
ADDRESS = "127.0.0.1:9876"


class Block(NamedTuple):
    """`line` is the number of lines before its first."""

    language: str
    line: int
    text: str


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [Block(block[1], text.count("\n", 0, block.start(2)), block[2]) for block in found]


class Reader:
    """Goes through a page block by block; what is not on this machine is replaced, word for word.

    `with Reader(page, …) as reader:` fails if a block was left out.
    """

    def __init__(self, page: Path, replacements: Mapping[str, str]) -> None:
        self._page = page
        self._replacements = replacements
        self._waiting = blocks(page)
        self.names: dict[str, Any] = {}

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        assert kind is not None or not self._waiting, f"not executed: {self._waiting[0]}"

    def next(self, language: str) -> Block:
        """The next block, which is in this language."""
        found = self._waiting.pop(0)
        assert found.language == language, found
        text = found.text
        for word, replacement in self._replacements.items():
            text = text.replace(word, replacement)
        return found._replace(text=text)

    def run_python(self) -> None:
        """Execute the next block; its names stay for those that follow. An error names the page and the line."""
        block = self.next("python")
        exec(compile("\n" * block.line + block.text, str(self._page), "exec"), self.names)
