"""A table whose name ends with `_chart` is drawn after a run: as bars, to `charts/NAME.svg` in the pipeline's storage.

It has the columns `label` and `value`, and may have `place`, by which the bars are ordered. Its comment stands below
the title. A picture has `BARS_MAX` bars at most, and says how many it leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple

from cometmq.errors import InvalidArgument

WIDTH: Final = 720
BAR_HEIGHT: Final = 24
MARGIN: Final = 16
LETTER_WIDTH: Final = 7.5
LABEL_SIZE_MAX: Final = 40
VALUE_WIDTH: Final = 110
BARS_MAX: Final = 60
SUFFIX: Final = "_chart"

_NO_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STYLE: Final = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
  .title { font-size: 17px; font-weight: 600 } .soft { fill: #656d76 }
  .paper { fill: #ffffff } .bar { fill: #6b4eff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .soft { fill: #8d96a0 } .paper { fill: #0d1117 } .bar { fill: #9e86ff }
  }
"""


class Table(NamedTuple):
    """What a run knows of a table that may be a chart."""

    comment: str
    rows: Sequence[Mapping[str, Any]]


def bars(title: str, comment: str, values: Sequence[tuple[str, float]]) -> str:
    """An SVG of horizontal bars, in the order given; only what is above nothing is long."""
    shown, left_out = values[:BARS_MAX], len(values[BARS_MAX:])
    labels = [label if len(label) <= LABEL_SIZE_MAX else f"{label[: LABEL_SIZE_MAX - 1]}…" for label, _ in shown]
    most = max([value for _, value in shown if isfinite(value)], default=0)
    notes = [] if shown else ["nothing was counted"]
    if left_out:
        notes.append(f"and {left_out:,} more")
    top = 72 if comment else 52
    left = MARGIN + LETTER_WIDTH * max(map(len, labels), default=0) + 8
    height = top + BAR_HEIGHT * (len(shown) + len(notes)) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<style>{_STYLE}</style>",
        f"<title>{_text(title)}</title>",
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
        f'<text class="title" x="{MARGIN}" y="32">{_text(title)}</text>',
    ]
    if comment:
        parts.append(f'<text class="soft" x="{MARGIN}" y="54">{_text(comment)}</text>')
    for number, (label, (_, value)) in enumerate(zip(labels, shown, strict=True)):
        y = top + number * BAR_HEIGHT
        is_drawn = isfinite(value) and value > 0
        width = max((WIDTH - left - VALUE_WIDTH) * (value / most), 1) if is_drawn else 0
        parts += [
            f'<text x="{left - 8:g}" y="{y + 15}" text-anchor="end">{_text(label)}</text>',
            f'<rect class="bar" x="{left:g}" y="{y + 2}" width="{width:.1f}" height="{BAR_HEIGHT - 7}" rx="2"/>',
            f'<text x="{left + width + 8:.1f}" y="{y + 15}">{value:,.10g}</text>',
        ]
    for number, note in enumerate(notes, len(shown)):
        parts.append(f'<text class="soft" x="{MARGIN}" y="{top + number * BAR_HEIGHT + 15}">{note}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _text(told: str) -> str:
    """As it may stand in XML, which has no place for most control characters."""
    return escape(_NO_XML.sub("�", told))


def draw_charts(tables: Mapping[str, Table], folder: Path) -> list[Path]:
    """Draw those of the tables that have what a chart needs; returns the pictures."""
    drawn = []
    for name, (comment, rows) in sorted(tables.items()):
        if rows and not {"label", "value"} <= set(rows[0]):
            continue
        ordered = sorted(rows, key=lambda row: (row.get("place") is None, row.get("place") or 0))
        values = [(str(row["label"]), _number(row["value"], name)) for row in ordered]
        picture = folder / f"{name}.svg"
        folder.mkdir(parents=True, exist_ok=True)
        title = name.removesuffix(SUFFIX).replace("_", " ").capitalize()
        picture.write_text(bars(title, comment, values), encoding="utf-8")
        drawn.append(picture)
    return drawn


def _number(value: Any, table: str) -> float:
    try:
        return float(value or 0)
    except (TypeError, ValueError):
        raise InvalidArgument(f"{table} has {value!r} in its column value, where a chart needs a number") from None
