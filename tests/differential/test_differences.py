"""The list of differences covers what it says and nothing beside it."""

from __future__ import annotations

from typing import Any

import pytest

from .differences import covering, differences
from .reply import in_order, mark


def answer(**fields: Any) -> dict[str, Any]:
    return {"code": 0, "remark": None, "ext": {}, "body": None, **fields}


@pytest.mark.parametrize(
    ("java", "comet"),
    [
        (answer(code=1), answer(code=13)),
        (answer(code=0), answer(code=1, remark="refused")),
        ({"answer": "none"}, answer()),
        (answer(remark="FOUND"), answer(remark="found")),
        (answer(ext={"offset": "1"}), answer(ext={"offset": "2"})),
        (answer(ext={"offset": "1"}), answer()),
        (answer(), answer(ext={"offset": "1"})),
        (answer(ext={"msgId": "7F000001000046F7000000000020670E"}), answer(ext={"msgId": "none"})),
        (answer(body=[{"storeTime": 1_700_000_000_000}]), answer(body=[{"storeTime": 0}])),
        (answer(body=[{"size": 100, "properties": {}}]), answer(body=[{"size": 101, "properties": {}}])),
        (answer(body=[1]), answer(body=[1, 1])),
        (answer(body={"json": {"perm": 6}}), answer(body={"json": {"perm": "6"}})),
        (answer(body={"json": {"order": False}}), answer(body={"json": {"order": 0}})),
    ],
)
def test_what_matters_is_not_covered(java: dict[str, Any], comet: dict[str, Any]) -> None:
    assert [one for one in differences(11, "valid", java, comet) if covering(one) is None]


def test_equal_answers_do_not_differ() -> None:
    assert not list(differences(11, "valid", answer(body=[{"a": 1}]), answer(body=[{"a": 1}])))


def test_listings_show_only_what_belongs_to_the_case() -> None:
    own, other = mark("broker-17", "json", 0), mark("broker-17", "json", 1)
    listed = {"TBW102": 1, f"{own}topic": 2, f"{other}topic": 3, f"%RETRY%{other}group": 4, f"absent_{other}topic": 5}
    assert in_order(listed, own) == {"TBW102": 1, f"{own}topic": 2}
    assert in_order([f"{other}topic", f"{own}topic", "TBW102"], own) == ["TBW102", f"{own}topic"]
