"""SQL92 filters: Apache RocketMQ's parser and ours accept the same expressions and answer alike about any message."""

from __future__ import annotations

import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.original.jars import original_jars
from tests.original.programs import java_program

from cometmq.errors import FilterRefused
from cometmq.filter import sql
from cometmq.model import properties as model_properties

SOURCE = Path(__file__).with_name("java") / "SqlOracle.java"
Answer = Callable[[str, dict[str, str]], str]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Answer]:
    with subprocess.Popen(
        java_program(SOURCE, original_jars()), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def ask(text: str, properties: dict[str, str]) -> str:
            words = [text, *(word for pair in properties.items() for word in pair)]
            stdin.write(b",".join(b64encode(word.encode()) for word in words) + b"\n")
            stdin.flush()
            return stdout.readline().decode().strip()

        yield ask
        stdin.close()


def ours(text: str, properties: dict[str, str]) -> str:
    try:
        expression = sql.parse(text)
    except FilterRefused as refused:
        assert 0 <= refused.at <= len(text)
        return "REFUSED"
    stored = model_properties.render(properties).encode()
    try:
        answer = expression.evaluate(b"\x02" + stored)
    except sql.NotComparable:
        assert not expression.matches(stored)
        return "ERROR"
    assert expression.matches(stored) is (answer is True)
    return "NULL" if answer is None else str(answer).upper()


NAMES = st.sampled_from(["a", "b", "c", "A", "_x$1", "absent"])
NUMBERS = st.sampled_from(
    ["0", "1", "5", "10", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "0123", "0l", "5L",
     "1.5", "5.", ".5", "5.0", "1e3", "5.e3", "1E-3", "1e400", "1e-400", "0.0", "10x", "1.5f", "00.5"]
)  # fmt: skip
TEXTS = st.sampled_from(["", "x", "5", "1.5", "true", "TRUE", "false", "it's", "10", "abc", "é☄", "-5", "NaN", "l"])
VALUES = st.one_of(
    TEXTS.filter(bool),
    st.sampled_from(
        ["+5", "-2147483648", "2147483648", "007", " 5", "5 ", "1e3", "1.5f", "0x1p3", "0x.8p1d", "Infinity",
         "-Infinity", "1_0", "0.0", "-0.0", "-0", "٥", "𝟓", "x\x01y", "0" * 30 + "5", "9" * 30, "1e999", "bc", "xabcx",
         "5.0", "tRue"]
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x02"), min_size=1, max_size=4),
)  # fmt: skip
PROPERTIES = st.dictionaries(st.sampled_from(["a", "b", "c", "A", "_x$1"]), VALUES)
QUOTED = TEXTS.map(lambda text: "'" + text.replace("'", "''") + "'")
CONSTANTS = st.one_of(NUMBERS, QUOTED, st.sampled_from(["TRUE", "false", "Null"]))
SIGNS = st.sampled_from(["=", "<>", ">", ">=", "<", "<="])
TESTS = st.sampled_from(["CONTAINS", "startswith", "EndsWith", "not contains", "NOT STARTSWITH", "NOT ENDSWITH"])
BLANKS = st.sampled_from([" ", "\n", "\t ", " /* x * / ** */ ", " -- x\n", "\f"])


def spaced(*parts: st.SearchStrategy[str] | str) -> st.SearchStrategy[str]:
    pieces = [st.just(part) if isinstance(part, str) else part for part in parts]
    return st.tuples(BLANKS, *pieces).map(lambda found: found[0].join(found[1:]))


def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    closed = inner.map(lambda text: f"({text})")
    operand = st.one_of(NAMES, NAMES, CONSTANTS, closed, inner)
    lists = st.lists(QUOTED, min_size=1, max_size=7).map(lambda items: "(" + ", ".join(items) + ")")
    return st.one_of(
        spaced(operand, SIGNS, operand),
        spaced(NAMES, SIGNS, CONSTANTS),
        spaced(operand, st.sampled_from(["AND", "or", "And", "OR"]), operand),
        spaced("NOT", operand),
        spaced(st.sampled_from("+-"), operand),
        spaced(operand, TESTS, QUOTED),
        spaced(operand, st.sampled_from(["BETWEEN", "NOT BETWEEN"]), operand, "AND", operand),
        spaced(NAMES, "BETWEEN", NUMBERS, "AND", NUMBERS),
        spaced(operand, st.sampled_from(["IN", "NOT IN"]), lists),
        spaced(operand, st.sampled_from(["IS NULL", "IS NOT NULL"])),
        closed,
    )


def well_formed(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    closed = inner.map(lambda text: f"({text})")
    return st.one_of(
        spaced(inner, st.sampled_from(["AND", "OR"]), inner),
        spaced("NOT", closed),
        spaced(closed, "=", closed),
        spaced(closed, "<>", NAMES),
        spaced(closed, st.sampled_from(["IS NULL", "IS NOT NULL"])),
        spaced("-", closed, "=", NAMES),
    )


PLAIN_NUMBERS = st.sampled_from(["1", "5", "-5", "10", "1.5", "-1.5", "5.0", "3000000000", "1e3"])
CONDITIONS = st.recursive(
    st.one_of(
        spaced(NAMES, SIGNS, PLAIN_NUMBERS),
        spaced(PLAIN_NUMBERS, SIGNS, NAMES),
        spaced(NAMES, SIGNS, NAMES),
        spaced(NAMES, st.sampled_from(["=", "<>"]), QUOTED | st.sampled_from(["TRUE", "FALSE"])),
        spaced(st.sampled_from(["TRUE", "FALSE", "'true'"]), "=", NAMES),
        spaced(NAMES, "BETWEEN", st.sampled_from(["1", "-5", "b", "1.5"]), "AND", st.sampled_from(["5", "10", "c"])),
        spaced(NAMES, "NOT BETWEEN", PLAIN_NUMBERS, "AND", PLAIN_NUMBERS),
        spaced(NAMES, TESTS, QUOTED),
        spaced(NAMES, st.sampled_from(["IN ('x', '5')", "NOT IN ('x', '5', '1', '2', 'true', '10')", "IS NOT NULL"])),
    ),
    well_formed,
    max_leaves=6,
)
EXPRESSIONS = st.recursive(st.one_of(NAMES, CONSTANTS), larger, max_leaves=8)
WORDS = st.one_of(
    NAMES, CONSTANTS, SIGNS, TESTS, BLANKS,
    st.sampled_from(["(", ")", ",", "+", "-", "--", "/*", "*/", "NOT", "IS", "IN", "AND", "OR", "NULL", "BETWEEN",
                     "LIKE", "'", "!", ";", ".", "K", "ſ", "\\u0041", "'a''", "\x0b", "\xa0", "~"]),
)  # fmt: skip
SOUP = st.lists(WORDS, max_size=8).map(" ".join) | st.lists(WORDS, max_size=6).map("".join)

fuzz = settings(
    max_examples=1000, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@fuzz
@given(EXPRESSIONS | CONDITIONS, PROPERTIES)
@example("a = b", {})
@example("'x' = a", {})
@example("TRUE = a", {"a": "true"})
@example("a LIKE 'x'", {"a": "x"})
@example("a IS NULL > 5", {})
@example("a > 5", {"a": "5.5"})
@example("a > 1.5", {"a": "NaN"})
@example("a > b", {"a": "-0.0", "b": "0.0"})
@example("- a = 5", {"a": "-5"})
@example("-5 = a", {"a": "-5"})
@example("-2147483648 = a", {"a": "-2147483648"})
def test_both_answer_alike(oracle: Answer, text: str, properties: dict[str, str]) -> None:
    assert ours(text, properties) == oracle(text, properties)


@fuzz
@given(SOUP, PROPERTIES)
def test_both_read_and_refuse_the_same(oracle: Answer, text: str, properties: dict[str, str]) -> None:
    assert ours(text, properties) == oracle(text, properties)
