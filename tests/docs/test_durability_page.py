"""The promises about acknowledgements: each is linked to a test, and the numbers are those of the results."""

from __future__ import annotations

import json
import re

import pytest
from tests.docs.test_docs import ROOT

PAGE = ROOT / "docs" / "operate" / "durability.md"
RESULTS = sorted((ROOT / "bench" / "results" / "fault").glob("*.json"))
TEXT = PAGE.read_text(encoding="utf-8")
FIGURES = {"1,000 kills": 1, "100,000 power cuts": 2, "40,000 failing calls": 4, "20 stores": 18, "30 kills": 28}
"""How often the page says that something was done, and the row of the faults."""


def promises() -> list[tuple[str, str]]:
    """Every cell of the tables by mode × fault, as the fault and what it costs."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line[:1] == "|"]
    return [(row[0], cell) for row in rows if row[0] != "fault" and set(row[0]) != {"-"} for cell in row[1:]]


def test_the_tables_are_found() -> None:
    faults = [fault for fault, _ in promises()]
    assert len(faults) == 2 * len(set(faults)) >= 40
    assert {"kill −9 of the process", "kill −9 of the master"} <= set(faults)


@pytest.mark.parametrize(("fault", "promise"), promises())
def test_a_promise_is_linked_to_the_test_that_shows_it(fault: str, promise: str) -> None:
    links = re.findall(r"\]\(([^)]+)\)", promise)
    assert links, f"{fault}: nothing shows {promise!r}"
    for target in links:
        path = (PAGE.parent / target).resolve()
        assert path.is_file() and path.is_relative_to(ROOT / "tests") and re.fullmatch(r"test_\w+\.py", path.name)


@pytest.mark.parametrize(("figure", "number"), FIGURES.items())
def test_a_figure_is_that_of_a_result(figure: str, number: int) -> None:
    assert figure in " ".join(TEXT.split())
    wanted = int(figure.split(" ")[0].replace(",", ""))
    found = [json.loads(path.read_text(encoding="utf-8")) for path in RESULTS if path.name[4:6] == f"{number:02d}"]
    assert any(one["full"] == wanted <= one["count"] and one["violations"] == 0 for one in found)


@pytest.mark.parametrize("side", ["comet", "pure"])
def test_the_time_of_a_replay_is_that_of_the_result(side: str) -> None:
    runs = json.loads((ROOT / "bench" / "results" / "replay" / "latest.json").read_text(encoding="utf-8"))["runs"]
    (took_s,) = (run["values"]["s_per_gib"] for run in runs if (run["side"], run["workload"]) == (side, "kill"))
    words = "s for each GiB of 1 KiB messages" if side == "comet" else "s where the compiled extension is not built"
    assert f"{took_s:.1f} {words}" in " ".join(TEXT.split())
    assert all(run["values"]["s_per_gib"] <= 5 for run in runs)
