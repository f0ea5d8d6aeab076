"""A table whose name ends with `_chart` is drawn after a run: as bars, to `charts/NAME.svg` in the pipeline's storage.

It has the columns `label` and `value`, and may have `place`, by which the bars are ordered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

WIDTH: Final = 720
BAR_HEIGHT: Final = 24
LABEL_WIDTH: Final = 150
VALUE_WIDTH: Final = 90
BARS_MAX: Final = 60
SUFFIX: Final = "_chart"


def bars(title: str, values: Sequence[tuple[str, float]]) -> str:
    """An SVG of horizontal bars, in the order given."""
    top = 48
    height = top + BAR_HEIGHT * max(1, len(values)) + 12
    most = max([value for _, value in values], default=0) or 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<style>text { font: 13px system-ui, sans-serif; fill: #1f2328 } rect { fill: #3b7dd8 }</style>",
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" style="fill: #ffffff"/>',
        f'<text x="12" y="28" style="font-size: 16px; font-weight: 600">{escape(title)}</text>',
    ]
    if not values:
        parts.append(f'<text x="12" y="{top + 14}">nothing was counted</text>')
    for number, (label, value) in enumerate(values):
        y = top + number * BAR_HEIGHT
        width = (WIDTH - LABEL_WIDTH - VALUE_WIDTH) * max(value, 0) / most
        parts += [
            f'<text x="{LABEL_WIDTH - 8}" y="{y + 15}" text-anchor="end">{escape(label)}</text>',
            f'<rect x="{LABEL_WIDTH}" y="{y + 3}" width="{max(width, 1):.1f}" height="{BAR_HEIGHT - 8}"/>',
            f'<text x="{LABEL_WIDTH + width + 6:.1f}" y="{y + 15}">{value:,.10g}</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def draw_charts(tables: Mapping[str, Sequence[Mapping[str, Any]]], folder: Path) -> list[Path]:
    """Draw those of the tables (rows by name) that have what a chart needs; returns the pictures."""
    drawn = []
    for name, rows in sorted(tables.items()):
        if rows and not {"label", "value"} <= set(rows[0]):
            continue
        ordered = sorted(rows, key=lambda row: (row.get("place") is None, row.get("place") or 0))
        values = [(str(row["label"]), float(row["value"] or 0)) for row in ordered[:BARS_MAX]]
        picture = folder / f"{name}.svg"
        folder.mkdir(parents=True, exist_ok=True)
        picture.write_text(bars(name.removesuffix(SUFFIX).replace("_", " "), values), encoding="utf-8")
        drawn.append(picture)
    return drawn
