"""A terminal that tests write to and read: it keeps lines, and knows the few commands that our displays use."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import termios
from typing import Final

_PART: Final = re.compile(r"\x1b\[(\d*)([A-Za-z])|\r|\n|[^\x1b\r\n]+")


class Screen:
    """What a terminal of this size shows after some text; lines that are too long go on in the next one."""

    def __init__(self, columns: int, lines: int) -> None:
        self.columns = columns
        self.height = lines
        self.lines = [""]
        self._row = self._column = 0

    def feed(self, text: str) -> None:
        for part in _PART.finditer(text):
            if part[2] == "A":
                top = max(0, len(self.lines) - self.height)  # what has been scrolled away cannot be reached
                self._row = max(top, self._row - int(part[1] or 1))
            elif part[2] == "J":
                del self.lines[self._row + 1 :]
                self.lines[self._row] = self.lines[self._row][: self._column]
            elif part[2]:
                raise AssertionError(f"an unknown command: {part[0]!r}")
            elif part[0] == "\r":
                self._column = 0
            elif part[0] == "\n":
                self._down()
            else:
                self._write(part[0])

    def _down(self) -> None:
        self._row += 1
        if self._row == len(self.lines):
            self.lines.append("")

    def _write(self, text: str) -> None:
        for letter in text:
            if self._column == self.columns:
                self._down()
                self._column = 0
            line = self.lines[self._row].ljust(self._column)
            self.lines[self._row] = line[: self._column] + letter + line[self._column + 1 :]
            self._column += 1


def open_terminal(columns: int, lines: int) -> tuple[int, int]:
    """Both ends of a terminal of this size: ours, and the program's."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    return ours, theirs


def read_screen(ours: int, columns: int, lines: int) -> Screen:
    """What was written until the program closed its end."""
    screen, text = Screen(columns, lines), b""
    while True:
        try:
            some = os.read(ours, 65_536)
        except OSError:  # that is how the other end's closing is told
            break
        text += some
    screen.feed(text.decode())
    return screen
