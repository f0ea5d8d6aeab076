"""The list of differences as a part of docs/reference/compat.md: `python -m tests.differential.compat` writes it."""

from __future__ import annotations

from pathlib import Path

from .differences import ENTRIES, Entry

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "compat.md"
BEGIN = "<!-- from tests/differential/differences: begin -->\n"
END = "<!-- from tests/differential/differences: end -->\n"


def rendered() -> str:
    """The generated part."""
    meant = "".join(_paragraph(entry) for entry in ENTRIES if entry.kind == "difference")
    masked = "".join(
        f"| {entry.title} | `{entry.where}` | {entry.why} |\n" for entry in ENTRIES if entry.kind == "mask"
    )
    return (
        "## Differences that are meant\n\n"
        f"{meant}"
        "## Values that differ between any two servers\n\n"
        "They are compared in kind (a time with a time, an address with an address), not in value.\n\n"
        "| What | Where in the answer | Why |\n|---|---|---|\n"
        f"{masked}"
    )


def _paragraph(entry: Entry) -> str:
    codes = f" (request {', '.join(map(str, sorted(entry.codes)))})" if entry.codes else ""
    return f"- **{entry.title}**{codes}. {entry.why}\n\n"


def page_with(part: str) -> str:
    """The page with its generated part replaced."""
    head, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}{part}{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page_with(rendered()), encoding="utf-8")
