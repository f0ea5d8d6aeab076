"""Every request code, valid and bad, in both header forms: the same answers as Apache RocketMQ 5.5.0."""

from __future__ import annotations

import pytest

from .comparison import CASES, SERVERS, Comparison
from .differences import ENTRIES
from .frames import HOSTILE

pytestmark = pytest.mark.xdist_group("differential")


@pytest.mark.parametrize("case", CASES)
def test_answers_are_the_same(comparison: Comparison, case: str) -> None:
    unexplained = comparison.unexplained(case)
    if unexplained:
        pytest.fail(f"{len(unexplained)} unexplained differences:\n" + "\n".join(map(str, unexplained)), pytrace=False)


def test_every_entry_covers_something(comparison: Comparison) -> None:
    for case in CASES:  # those that did not run yet in this process
        comparison.unexplained(case)
    for name in HOSTILE:
        for server in SERVERS:
            comparison.unexplained_end(name, server)
    unused = [entry.title for entry in ENTRIES if not comparison.used[entry.title]]
    assert not unused, f"entries of differences.py that cover nothing: {unused}"
