"""The picture of a result, as SVG written by hand: a pair of bars per number, in the colours of the reader's theme.

Rows have scales of their own (the longer bar is full width), because messages a second and megabytes share no axis;
the ratio on the right is what the rows have in common.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

from bench.gates import judge
from bench.metrics import METRICS, Metric
from bench.results import Result
from bench.servers import LABELS

_WIDTH: Final = 820
_LEFT: Final = 275
_BAR_WIDTH: Final = 310
_RATIO_AT: Final = 800
_TOP: Final = 66
_ROW: Final = 50
_BAR: Final = 14

_STYLE: Final = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
  .title { font-size: 16px; font-weight: 600 }
  .soft { fill: #656d76; font-size: 12px }
  .ratio { font-weight: 600; font-size: 14px }
  .java { fill: #b9c0c8 } .comet { fill: #6b4eff } .good { fill: #1a7f37 } .bad { fill: #cf222e }
  .line { stroke: #d8dee4 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .soft { fill: #8d96a0 } .java { fill: #57606a } .comet { fill: #9e86ff }
    .good { fill: #3fb950 } .bad { fill: #f85149 } .line { stroke: #30363d }
  }
"""


def render(result: Result) -> str:
    """The whole SVG document."""
    shown = [metric for metric in METRICS if result.ratio(metric) is not None]
    height = _TOP + _ROW * len(shown) + 14
    verdicts = {verdict.gate.metric: verdict for verdict in judge(result) if verdict.gate.side is None}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-labelledby="title">',
        f"<style>{_STYLE}</style>",
        f'<title id="title">CometMQ beside {escape(LABELS["java"])}</title>',
        *_legend(result),
    ]
    for row, metric in enumerate(shown):
        verdict = verdicts.get(metric.key)
        tone = "" if verdict is None else " good" if verdict.passed else " bad"
        parts += _row(result, metric, _TOP + row * _ROW, tone)
    return "\n".join([*parts, "</svg>", ""])


def _legend(result: Result) -> list[str]:
    machine = result.machine
    return [
        '<text class="title" x="16" y="26">CometMQ beside Apache RocketMQ</text>',
        (
            f'<text class="soft" x="16" y="45">median of {result.rounds}, {machine["cores"]} cores, driver included; '
            f"{escape(result.date[:10])}</text>"
        ),
        f'<rect class="java" x="{_LEFT + 165}" y="15" width="12" height="12" rx="2"/>',
        f'<text x="{_LEFT + 183}" y="26">{escape(LABELS["java"])}</text>',
        f'<rect class="comet" x="{_LEFT + 365}" y="15" width="12" height="12" rx="2"/>',
        f'<text x="{_LEFT + 383}" y="26">{escape(LABELS["comet"])}</text>',
    ]


def _row(result: Result, metric: Metric, y: int, tone: str) -> list[str]:
    java = result.median(metric, "java") or 0.0
    comet = result.median(metric, metric.comet) or 0.0
    ratio = result.ratio(metric) or 0.0
    scale = _BAR_WIDTH / max(java, comet)
    better = "more is better" if metric.higher_is_better else "less is better"
    return [
        f'<line class="line" x1="16" y1="{y}" x2="{_WIDTH - 16}" y2="{y}"/>',
        f'<text x="16" y="{y + 22}">{escape(metric.label)}</text>',
        f'<text class="soft" x="16" y="{y + 38}">{metric.unit}, {better}</text>',
        *_bar("java", java, scale, y + 9, metric.unit),
        *_bar("comet", comet, scale, y + 10 + _BAR, metric.unit),
        f'<text class="ratio{tone}" x="{_RATIO_AT}" y="{y + 30}" text-anchor="end">{ratio:.2f} ×</text>',
    ]


def _bar(side: str, value: float, scale: float, y: int, unit: str) -> list[str]:
    width = max(2.0, value * scale)
    return [
        f'<rect class="{side}" x="{_LEFT}" y="{y}" width="{width:.1f}" height="{_BAR}" rx="3"/>',
        f'<text class="soft" x="{_LEFT + width + 8:.1f}" y="{y + 11}">{number(value, unit)}</text>',
    ]


def number(value: float, unit: str) -> str:
    """A value with the digits that its unit deserves."""
    if unit in ("msg/s", "rows/s", "messages"):
        return f"{value:,.0f}"
    return f"{value:.2f}" if unit == "s" else f"{value:.3f}" if value < 1 else f"{value:,.1f}"


def spread(values: Sequence[float], unit: str) -> str:
    """The median, and from where to where the values go."""
    if not values:
        return ""
    text = number(statistics.median(values), unit)
    return text if len(values) == 1 else f"{text} ({number(min(values), unit)}–{number(max(values), unit)})"
