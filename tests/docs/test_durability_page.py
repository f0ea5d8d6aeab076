"""The promises about acknowledgements: each is linked to a test, and the numbers are those of the results."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable

import pytest
from tests.docs.test_docs import ROOT

PAGE = ROOT / "docs" / "operate" / "durability.md"
RESULTS = sorted((ROOT / "bench" / "results" / "fault").glob("*.json"))
TEXT = PAGE.read_text(encoding="utf-8")
FIGURES = {"1,000 kills": 1, "100,000 power cuts": 2, "40,000 failing calls": 4, "20 stores": 18, "30 kills": 28}
"""How often the page says that something was done, and the row of the faults."""


def promises() -> list[tuple[str, str, str]]:
    """Every cell of the tables by mode × fault, as the mode, the fault and what it costs."""
    found: list[tuple[str, str, str]] = []
    modes: list[str] = []
    for line in TEXT.splitlines():
        fault, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line[:1] != "|" or set(fault) == {"-"}:
            continue
        if fault == "fault":
            modes = [cell.split(",")[0] for cell in cells]
        else:
            found += [(mode, fault, cell) for mode, cell in zip(modes, cells, strict=True)]
    return found


def test_the_tables_are_found() -> None:
    faults = [fault for _, fault, _ in promises()]
    assert len(faults) == 2 * len(set(faults)) >= 40
    assert {"kill −9 of the process", "kill −9 of the master"} <= set(faults)
    assert {mode for mode, _, _ in promises()} == {"SYNC_FLUSH", "ASYNC_FLUSH", "ASYNC_MASTER", "SYNC_MASTER"}


@pytest.mark.parametrize(("mode", "fault", "promise"), promises())
def test_a_promise_is_linked_to_the_test_that_shows_it(mode: str, fault: str, promise: str) -> None:
    links = re.findall(r"\]\(\.\./\.\./([\w/]+)\.py#(\w+)\)", promise)
    assert links and len(links) == promise.count("]("), f"{fault}: nothing, or no test by name, shows {promise!r}"
    for path, name in links:
        assert re.match(r"tests/.*\btest_\w+ test_", f"{path} {name}")
        test = getattr(importlib.import_module(path.replace("/", ".")), name)
        modes = modes_of(test, mode.partition("_")[2])
        assert not modes or mode in modes, f"{fault}: {name} shows {modes}, not {mode}"


def modes_of(test: Callable[..., object], kind: str) -> set[str]:
    """In which modes of a kind, FLUSH or MASTER, a test is run; empty if that is none of its parameters."""
    marks: list[pytest.Mark] = getattr(test, "pytestmark", [])
    values = " ".join(repr(mark.args[1]) for mark in marks if mark.name == "parametrize")
    return set(re.findall(rf"\bA?SYNC_{kind}\b", values))


def test_the_modes_of_a_test_are_found() -> None:
    @pytest.mark.parametrize(("flush", "count"), [("SYNC_FLUSH", 1)])
    def one(flush: str, count: int) -> None: ...

    assert modes_of(one, "FLUSH") == {"SYNC_FLUSH"}
    assert modes_of(one, "MASTER") == modes_of(promises, "FLUSH") == set()


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
