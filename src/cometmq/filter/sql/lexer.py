"""The words of a SQL92 expression.

The longest word wins, keywords are found in any case, and a line comment ends with its line: without a line end it is
no comment but two minus signs. Words are cut only when the parser asks for them: what stands behind a complete
expression is looked at for one word and no further, so the original accepts it and so do we.

Mirrors: SelectorParserTokenManager.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NoReturn

from cometmq.errors import FilterRefused

KEYWORDS: Final = frozenset(
    {"NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH"}
)
NAME, STRING, WHOLE, FLOAT, END = "name", "string", "whole", "float", "end"

_EXPONENT = "[eE][+-]?[0-9]+"
_WORD: Final = re.compile(
    rf"""
      (?P<blank>[ \t\n\r\f]+ | --[^\n\r]*(?:\r\n|\n|\r) | /\*.*?\*/)
    | (?P<float>[0-9]+\.[0-9]*(?:{_EXPONENT})? | \.[0-9]+(?:{_EXPONENT})? | [0-9]+{_EXPONENT})
    | (?P<whole>0|[1-9][0-9]*[lL]?)
    | (?P<string>'(?:''|[^'])*')
    | (?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
    | (?P<sign><>|<=|>=|[<>=(),+-])
    """,
    re.VERBOSE | re.DOTALL,
)
_EXCERPT_MAX: Final = 20


class Token(NamedTuple):
    """`kind` is a keyword or a sign itself, or one of the kinds above."""

    kind: str
    text: str
    at: int


class Lexer:
    """Cuts an expression into words."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._at = 0

    def next(self) -> Token:
        while True:
            at = self._at
            found = _WORD.match(self.text, at)
            if found is None:
                if at < len(self.text):
                    self._refuse_rest(at)
                return Token(END, "", at)
            self._at = found.end()
            kind = found.lastgroup
            if kind == "blank":
                continue
            text = found[0]
            if kind == "name":
                keyword = text.upper()
                return Token(keyword if keyword in KEYWORDS else NAME, text, at)
            return Token(text if kind == "sign" else str(kind), text, at)

    def _refuse_rest(self, at: int) -> NoReturn:
        if self.text[at] == "'":
            refuse(self.text, at, "a string begins here and never ends")
        if self.text.startswith("/*", at):
            refuse(self.text, at, "a comment begins here and never ends")
        refuse(self.text, at, f"the character {self.text[at]!r} has no meaning in SQL92")


def refuse(text: str, at: int, why: str) -> NoReturn:
    """Say no, and where the fault is."""
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    near = f", near {text[at : at + _EXCERPT_MAX]!r}" if at < len(text) else ", at its end"
    raise FilterRefused(f"the SQL92 filter is wrong at line {line}, column {column}{near}: {why}", at)


def unquoted(text: str) -> str:
    """What a string literal stands for."""
    return text[1:-1].replace("''", "'")
