"""Every request code, valid and bad, in both header forms, and bytes that are no requests: the same answers."""

from __future__ import annotations

import os

import pytest

from .comparison import CASES, SERVERS, Comparison
from .differences import ENTRIES
from .frames import HOSTILE
from .script import Server

TWIN = bool(os.environ.get("COMETMQ_DIFFERENTIAL_TWIN"))


@pytest.mark.parametrize("case", CASES)
def test_answers_are_the_same(comparison: Comparison, case: str) -> None:
    unexplained = comparison.unexplained(case)
    if unexplained:
        pytest.fail(f"{len(unexplained)} unexplained differences:\n" + "\n".join(map(str, unexplained)), pytrace=False)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("name", HOSTILE)
def test_connections_end_alike(comparison: Comparison, name: str, server: Server) -> None:
    assert not list(map(str, comparison.unexplained_end(name, server)))


@pytest.mark.skipif(TWIN, reason="two originals do not differ")
def test_every_entry_covers_something(comparison: Comparison) -> None:
    for case in CASES:  # those that did not run yet in this process
        comparison.unexplained(case)
    for name in HOSTILE:
        for server in SERVERS:
            comparison.unexplained_end(name, server)
    unused = [entry.title for entry in ENTRIES if not comparison.used[entry.title]]
    assert not unused, f"entries of differences that cover nothing: {unused}"
