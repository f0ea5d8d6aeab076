"""SQL92 filters: where a wrong one is wrong, what is bounded, and what a property is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FilterRefused
from cometmq.filter import sql
from cometmq.filter.sql.parser import LENGTH_MAX, NESTING_MAX, NODES_MAX


def refusal(text: str) -> FilterRefused:
    with pytest.raises(FilterRefused) as refused:
        sql.parse(text)
    return refused.value


@pytest.mark.parametrize(
    ("text", "at", "why"),
    [
        ("", 0, "a property, a value or '(' is expected"),
        ("a >", 3, "the end stands here"),
        ("a = 1 AND", 9, "the end stands here"),
        ("a > 'x'", 4, "only properties and numbers"),
        ("'x' > a", 0, "only properties and numbers"),
        ("a > TRUE", 4, "only properties and numbers"),
        ("a > 1 > 2", 0, "only properties and numbers"),
        ("a = NULL", 4, "write IS NULL"),
        ("TRUE = 5", 0, "cannot be compared"),
        ("a IN (5)", 6, "a string is expected"),
        ("a IN ('x'", 9, ") is expected"),
        ("5 IN ('x')", 0, "only a property"),
        ("a BETWEEN 5 AND 3", 10, "lower bound"),
        ("a BETWEEN 5 OR 3", 12, "AND is expected"),
        ("a IS 5", 5, "NULL is expected"),
        ("a NOT 5", 6, "after NOT"),
        ("a CONTAINS b", 11, "a string is expected"),
        ("a > 0.0", 4, "must lie between"),
        ("a > 1e999", 4, "must lie between"),
        ("a > 9223372036854775808", 4, "is more than"),
        ("5 AND a", 0, "a condition is expected"),
        ("'x'", 0, "a condition is expected"),
        ("NOT 5", 4, "a condition is expected"),
        ("a = 'x", 4, "never ends"),
        ("a = /* x", 4, "never ends"),
        ("a = 1 ; b", 6, "has no meaning"),
        ("a != 1", 2, "has no meaning"),
        ("(a = 1", 6, ") is expected"),
    ],
)
def test_a_wrong_filter_is_refused_with_the_place_of_the_fault(text: str, at: int, why: str) -> None:
    found = refusal(text)
    assert found.at == at
    assert why in str(found)
    assert f"line 1, column {at + 1}" in str(found)
    assert found.response == "SUBSCRIPTION_PARSE_FAILED"


def test_lines_are_counted() -> None:
    assert "line 3, column 5" in str(refusal("a = 1\nAND\n b >"))


def test_what_is_remembered_is_refused_again_alike() -> None:
    first, second = refusal("a >"), refusal("a >")
    assert first is not second
    assert (str(first), first.at) == (str(second), second.at)
    assert sql.parse("a > 1") is sql.parse("a > 1")


@pytest.mark.parametrize(
    ("opening", "closing"),
    [("(", ")"), ("NOT ", ""), ("- ", ""), ("+ ", ""), ("NOT (", ")"), ("-(", ")"), ("(a = ", ")"), ("(a OR ", ")")],
)
def test_deep_nesting_is_refused_and_never_runs_out_of_stack(opening: str, closing: str) -> None:
    for depth in (NESTING_MAX // 4, NESTING_MAX + 1, 3_000):
        text = opening * depth + "a" + closing * depth + (" = 1" if opening[0] in "+-" else "")
        if depth > NESTING_MAX:
            assert "nested more than" in str(refusal(text))
        else:
            sql.parse(text).matches(b"a\x011\x02")


@pytest.mark.parametrize("tail", [" = 1", " IS NULL", " CONTAINS 'x'", " <> b"])
def test_long_chains_of_one_operator_end_somewhere(tail: str) -> None:
    assert sql.parse("a" + tail * 50).matches(b"a\x01x\x02") in (True, False)
    assert "nested more than" in str(refusal("a" + tail * 1_000))


def test_long_and_and_or_chains_are_flat() -> None:
    text = " OR ".join(f"a = 'v{n}'" for n in range(NODES_MAX // 4))
    assert sql.parse(text).matches(f"a\x01v{NODES_MAX // 4 - 1}\x02".encode())
    folded = "a = 'v0'"
    for n in range(1, NESTING_MAX):
        folded = f"({folded}) OR a = 'v{n}'"
    assert sql.parse(folded).matches(f"a\x01v{NESTING_MAX - 1}\x02".encode())


def test_size_and_cost_have_a_maximum() -> None:
    assert f"more than {NODES_MAX} parts" in str(refusal(" OR ".join(["a = 1"] * (NODES_MAX // 3 + 1))))
    assert "characters" in str(refusal("a = '" + "x" * LENGTH_MAX + "'"))
    doubling = "a"
    for _ in range(40):  # each BETWEEN asks its operand twice
        doubling = f"-({doubling} BETWEEN 1 AND 2)"
    assert "parts" in str(refusal(doubling + " = 1"))
    assert "parts" in str(refusal(" OR ".join(["a CONTAINS 'x'"] * (NODES_MAX // 16))))
    assert sql.parse("a IN (" + ", ".join(f"'v{n}'" for n in range(3_000)) + ")").steps == 2


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (b"", None),
        (b"a\x01x\x02", "x"),
        (b"a\x01x", "x"),
        (b"a\x01x\x02a\x01y\x02", "y"),
        (b"a\x01x\x02a\x01\x02", "x"),
        (b"a\x01\x02", None),
        (b"aa\x01x\x02", None),
        (b"b\x01a\x01x\x02", None),
        (b"a\x01x\x01y\x02", "x\x01y"),
        (b"a\x01\xff\x02", "\ufffd"),
    ],
)
def test_a_property_is_found_as_it_is_stored(stored: bytes, wanted: str | None) -> None:
    assert sql.parse("a IS NULL").matches(stored) is (wanted is None)
    if wanted is not None:
        assert sql.parse(f"a = '{wanted}'").matches(stored)


def test_a_property_is_read_once_for_each_message() -> None:
    both = sql.parse("a > 5 AND a < 8 AND NOT (a = 6)")
    assert [both.matches(b"a\x01%d\x02" % n) for n in range(10)] == [n == 7 for n in range(10)]
    long = b"a\x01" + b"0" * 5_000 + b"7\x02"
    assert both.matches(long)
    assert sql.parse("a > 6.5 AND a < 7.5").matches(long)
    assert not sql.parse("a > 6.5").matches(long.replace(b"7", b"x"))


@given(st.text(max_size=60))
def test_garbage_raises_only_the_declared_error(text: str) -> None:
    check(text)


@given(
    st.lists(
        st.sampled_from(
            [
                "a",
                "5",
                "1.5",
                "'x'",
                "(",
                ")",
                ",",
                "=",
                "<>",
                "<",
                ">",
                "NOT",
                "AND",
                "OR",
                "IN",
                "IS",
                "NULL",
                "BETWEEN",
                "CONTAINS",
                "TRUE",
                "-",
                "+",
            ]
        )
    )
)
def test_words_in_any_order_raise_only_the_declared_error(words: list[str]) -> None:
    check(" ".join(words))


def check(text: str) -> None:
    try:
        found = sql.parse(text)
    except FilterRefused as refused:
        assert 0 <= refused.at <= len(text)
        assert "line" in str(refused)
    else:
        assert found.matches(b"a\x015\x02") in (True, False)
        assert found.matches(memoryview(b"b\x01x")) in (True, False)
