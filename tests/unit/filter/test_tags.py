"""Tag subscriptions as the original reads them."""

from __future__ import annotations

import pytest

from cometmq.errors import RequestRefused
from cometmq.filter import tags
from cometmq.model.java_hash import string_hash
from cometmq.model.subscription import SubscriptionData


@pytest.mark.parametrize("expression", [None, "", "*"])
def test_everything(expression: str | None) -> None:
    found = tags.parse("t", expression)
    assert found == SubscriptionData("t", "*")
    assert tags.matcher(found) is None


@pytest.mark.parametrize(
    ("expression", "names"),
    [("A", {"A"}), ("A || B", {"A", "B"}), ("A||", {"A"}), (" || A", {"A"}), ("A|B", {"A|B"}), ("  ", set())],
)
def test_tags(expression: str, names: set[str]) -> None:
    found = tags.parse("t", expression)
    assert found.tags_set == names
    assert found.code_set == {string_hash(name) for name in names}
    assert found.sub_string == expression


@pytest.mark.parametrize("expression", ["||", "||||"])
def test_separators_alone_are_refused(expression: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        tags.parse("t", expression)
    assert refused.value.response == "SUBSCRIPTION_PARSE_FAILED"


def test_only_the_wanted_codes_match() -> None:
    matches = tags.matcher(tags.parse("t", "A || Ünï"))
    assert matches is not None
    assert matches(string_hash("A"))
    assert matches(string_hash("Ünï"))
    assert not matches(string_hash("B"))
    assert not matches(0)


def test_a_blank_expression_matches_nothing() -> None:
    matches = tags.matcher(tags.parse("t", "  "))
    assert matches is not None
    assert not matches(0)


def test_other_expressions_are_kept_as_text() -> None:
    found = tags.build("t", "a > 1", "SQL92")
    assert (found.sub_string, found.expression_type, found.is_tag) == ("a > 1", "SQL92", False)
    assert tags.matcher(found) is None
    with pytest.raises(RequestRefused):
        tags.build("t", "", "SQL92")
