"""docs/reference/compat.md says what the list of differences says."""

from __future__ import annotations

from .compat import BEGIN, END, PAGE, page_with, rendered
from .differences import ENTRIES


def test_the_page_is_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert BEGIN in page and END in page
    assert page == page_with(rendered()), "run: python -m tests.differential.compat"


def test_titles_are_unique() -> None:
    titles = [entry.title for entry in ENTRIES]
    assert len(titles) == len(set(titles))
