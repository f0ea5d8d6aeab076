"""Shows a run: lines that renew themselves on a terminal, one line per change elsewhere, and a table at the end.

Lines that renew themselves never take more than the terminal has: what is wider is cut, and of more flows than there is
room for, those are shown that have not ended. So wiping goes up exactly as many lines as were written.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from typing import Final, TextIO

from cometmq.spark.pipelines.flows import ENDED, Flow, Flows

EVERY_S: Final = 0.2
USUAL_SIZE: Final = os.terminal_size((80, 24))  # of terminals that do not know theirs
_UP: Final = "\r\x1b[{}A\x1b[J"  # from the first column on: a key that was pressed may have been echoed
HEADINGS: Final = ("flow", "state", "rows", "rows/s", "batches", "batch", "lag")


def row_of(flow: Flow) -> tuple[str, ...]:
    """What the display tells of a flow."""
    lag = ", ".join([f"{topic} {count:,}" for topic, count in sorted(flow.lag.items())]) or "-"
    has_batches = flow.batches > 0
    return (
        flow.name,
        flow.state.lower(),
        f"{flow.rows:,}" if has_batches else "-",
        f"{flow.rows_per_s:,.0f}" if has_batches else "-",
        f"{flow.batches:,}" if has_batches else "-",
        f"{flow.batch_ms / 1000:.1f} s" if has_batches else "-",
        lag,
    )


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as they need to be; numbers stand to the right."""
    lines = [tuple(headings), *[tuple(row) for row in rows]]
    widths = [max(len(line[index]) for line in lines) for index in range(len(headings))]

    def laid(cell: str, width: int) -> str:
        return cell.rjust(width) if cell[:1].isdigit() or cell == "-" else cell.ljust(width)

    texts = [
        "  ".join([laid(cell, width) for cell, width in zip(line, widths, strict=True)]).rstrip() for line in lines
    ]
    texts.insert(1, "  ".join(["-" * width for width in widths]))
    return "\n".join(texts)


def flow_table(flows: Iterable[Flow]) -> str:
    return table(HEADINGS, [row_of(flow) for flow in flows])


def fitted(flows: Sequence[Flow], size: os.terminal_size) -> str:
    """The table as far as a terminal has room for it.

    A line stays free for the cursor, and a column, as a line that is full may count as two.
    """
    width, height = max(size.columns - 1, 1), max(size.lines - 1, 1)
    left_out = 0
    if len(flows) + 2 > height:  # the headings take two
        shown = max(height - 3, 0)
        left_out = len(flows) - shown
        flows = sorted(flows, key=lambda flow: flow.state in ENDED)[:shown]
    lines = flow_table(flows).split("\n")
    if left_out:
        lines.append(f"and {left_out:,} more")
    return "\n".join([line if len(line) <= width else line[: width - 1] + "…" for line in lines[-height:]])


class Display:
    """Call `renew` whenever something may have changed, and `close` when nothing is to be shown any more."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_live = out.isatty()
        self._next_s = 0.0
        self._lines = 0
        self._states: dict[str, str] = {}

    def say(self, text: str) -> None:
        """A line that stays."""
        self._wipe()
        self._out.write(text + "\n")
        self._out.flush()

    def renew(self, flows: Flows) -> None:
        if not self._is_live:
            for flow in list(flows.flows.values()):
                if self._states.get(flow.name) != flow.state:
                    self._states[flow.name] = flow.state
                    self.say(f"{flow.name}: {flow.state.lower()}")
            return
        if time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + EVERY_S
        self._wipe()
        size = os.get_terminal_size(self._out.fileno())
        text = fitted(list(flows.flows.values()), size if size.columns and size.lines else USUAL_SIZE)
        self._out.write(text + "\n")
        self._out.flush()
        self._lines = text.count("\n") + 1

    def close(self) -> None:
        """Wipe what renews itself off; what is said next is the last word."""
        self._next_s = float("inf")
        self._wipe()
        self._out.flush()

    def _wipe(self) -> None:
        if self._lines:
            self._out.write(_UP.format(self._lines))
            self._lines = 0
