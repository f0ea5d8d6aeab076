"""Shows a run: lines that renew themselves on a terminal, one line per change elsewhere, and a table at the end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final, TextIO

from cometmq.spark.pipelines.flows import Flow, Flows

EVERY_S: Final = 0.2
_UP: Final = "\x1b[{}A\x1b[J"
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


class Display:
    """Call `renew` whenever something may have changed."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_live = out.isatty()
        self._next_s = 0.0
        self._lines = 0
        self._states: dict[str, str] = {}

    def say(self, text: str) -> None:
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
        text = flow_table(list(flows.flows.values()))
        self._out.write(text + "\n")
        self._out.flush()
        self._lines = text.count("\n") + 1

    def _wipe(self) -> None:
        if self._lines:
            self._out.write(_UP.format(self._lines))
            self._lines = 0
