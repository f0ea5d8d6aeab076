"""Nodes of an expression, each with the function that answers for it.

A message is asked as bytes: one \\x02, then its properties as they are stored (`NAME \\x01 value \\x02 …`). A property
is looked for when it is needed, from the end, because of two the later one counts; nothing else is decoded.
A condition is True, False or None (unknown). Chains of AND and OR are one node, however long, so a tree is only as deep
as its text is nested.

Mirrors: PropertyExpression, ConstantExpression, UnaryExpression, LogicExpression, ComparisonExpression.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from cometmq.filter.sql.values import (
    Long,
    NotComparable,
    Value,
    compare,
    compare_doubles,
    compare_in_order,
    read_double,
    read_integer,
)

Evaluate = Callable[[bytes], Value]

PROPERTY, CONSTANT, NUMBER, CONDITION = "property", "constant", "number", "condition"

CONTAINS_STEPS: Final = 16  # it reads the whole text, the others a number or a few characters

ORDERS: Final[dict[str, Callable[[int, int], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
TEXT_TESTS: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


@dataclass(slots=True)
class Node:
    """A part of an expression: `size` is what it costs, `depth` how deep calls go, `at` its place in the text."""

    kind: str
    evaluate: Evaluate
    at: int
    size: int = 1
    depth: int = 1
    name: str = ""  # of a property or a chain
    value: Value = None  # of a constant
    inners: list[Evaluate] | None = None  # of a chain

    @property
    def is_condition(self) -> bool:
        """Whether it is true, false or unknown by itself; TRUE, FALSE and NULL are."""
        return self.kind == CONDITION or (
            self.kind == CONSTANT and (self.value is None or isinstance(self.value, bool))
        )


class Expression:
    """A filter that was read. `steps` says how much one message can cost at most."""

    __slots__ = ("evaluate", "steps", "text")

    def __init__(self, text: str, root: Node) -> None:
        self.text = text
        self.evaluate: Evaluate = root.evaluate
        self.steps = root.size

    def matches(self, properties: bytes | memoryview) -> bool:
        """Whether a message with these properties, as stored, is wanted; what cannot be compared is not."""
        try:
            return self.evaluate(b"\x02" + properties) is True
        except NotComparable:
            return False


def _over(kind: str, evaluate: Evaluate, at: int, *parts: Node) -> Node:
    return Node(kind, evaluate, at, 1 + sum(part.size for part in parts), 1 + max(part.depth for part in parts))


def property_lookup(name: str) -> Evaluate:
    """Finds a property once for each message, however often the expression names it. Any thread."""
    needle = f"\x02{name}\x01".encode()
    size = len(needle)
    last: tuple[bytes, str | None] = b"", None  # replaced as a whole, so threads cannot mix two messages

    def evaluate(data: bytes) -> Value:
        nonlocal last
        asked, value = last
        if asked is not data:
            value = look(data)
            last = data, value
        return value

    def look(data: bytes) -> str | None:
        found = data.rfind(needle)
        while found >= 0:
            start = found + size
            end = data.find(b"\x02", start)
            if end < 0:
                end = len(data)
            if end > start:
                return data[start:end].decode("utf-8", "replace")
            found = data.rfind(needle, 0, found)  # a name without a value does not count
        return None

    return evaluate


def property_named(name: str, at: int, lookup: Evaluate) -> Node:
    return Node(PROPERTY, lookup, at, name=name)


def constant(value: Value, at: int) -> Node:
    return Node(CONSTANT, lambda data: value, at, value=value)


def negated(right: Node, at: int) -> Node:
    """`-x`: of what is no number, unknown."""
    inner = right.evaluate

    def evaluate(data: bytes) -> Value:
        value = inner(data)
        if isinstance(value, Long):
            return Long(-value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return -value
        return None

    return _over(NUMBER, evaluate, at, right)


def condition(node: Node) -> Node:
    """A property as a condition by itself: a text is never true."""
    if node.kind != PROPERTY:
        return node
    inner = node.evaluate
    return _over(CONDITION, lambda data: None if inner(data) is None else False, node.at, node)


def inverted(right: Node, at: int) -> Node:
    inner = right.evaluate

    def evaluate(data: bytes) -> Value:
        value = inner(data)
        return None if value is None else not value

    return _over(CONDITION, evaluate, at, right)


def any_of(left: Node, right: Node) -> Node:
    """OR: the first that is true decides; unknown if one is unknown and none true."""
    inners: list[Evaluate] = []

    def evaluate(data: bytes) -> Value:
        answer: Value = False
        for inner in inners:
            value = inner(data)
            if value:
                return True
            if value is None:
                answer = None
        return answer

    return _chain("OR", inners, evaluate, left, right)


def all_of(left: Node, right: Node) -> Node:
    """AND: the first that is false decides; unknown if one is unknown and none false."""
    inners: list[Evaluate] = []

    def evaluate(data: bytes) -> Value:
        answer: Value = True
        for inner in inners:
            value = inner(data)
            if value is None:
                answer = None
            elif not value:
                return False
        return answer

    return _chain("AND", inners, evaluate, left, right)


def _chain(name: str, inners: list[Evaluate], evaluate: Evaluate, left: Node, right: Node) -> Node:
    """Two nodes asked one after the other; a left one that is such a chain is made longer instead."""
    if left.name == name and left.inners is not None:
        left.inners.append(right.evaluate)
        left.size += right.size
        left.depth = max(left.depth, 1 + right.depth)
        return left
    node = _over(CONDITION, evaluate, left.at, left, right)
    inners += left.evaluate, right.evaluate
    node.name, node.inners = name, inners
    return node


def equal(left: Node, right: Node) -> Node:
    """`=`: two absent values are equal; an absent one on the left is unknown, on the right unequal."""
    ours, theirs = left.evaluate, right.evaluate
    if left.kind == PROPERTY and right.kind == CONSTANT and isinstance(right.value, str):
        wanted = right.value

        def evaluate(data: bytes) -> Value:
            value = ours(data)
            return None if value is None else value == wanted

    else:

        def evaluate(data: bytes) -> Value:
            a = ours(data)
            b = theirs(data)
            if a is None:
                return True if b is None else None
            return b is not None and compare(a, b) == 0

    return _over(CONDITION, evaluate, left.at, left, right)


def ordered(left: Node, sign: str, right: Node) -> Node:
    """`<`, `<=`, `>`, `>=`: unknown where a value is absent."""
    ours, theirs, holds = left.evaluate, right.evaluate, ORDERS[sign]
    number = right.value
    if left.kind == PROPERTY and type(number) is int:  # what most expressions are made of
        whole = number

        def evaluate(data: bytes) -> Value:
            value = ours(data)
            return None if value is None else holds(read_integer(value), whole)  # type: ignore[arg-type]

    elif left.kind == PROPERTY and type(number) is float:
        double = number

        def evaluate(data: bytes) -> Value:
            value = ours(data)
            return None if value is None else holds(compare_doubles(read_double(value), double), 0)  # type: ignore[arg-type]

    else:

        def evaluate(data: bytes) -> Value:
            a = ours(data)
            if a is None:
                return None
            b = theirs(data)
            return None if b is None else holds(compare_in_order(a, b), 0)

    return _over(CONDITION, evaluate, left.at, left, right)


def text_test(left: Node, keyword: str, wanted: str, *, negative: bool) -> Node:
    """CONTAINS, STARTSWITH, ENDSWITH and their opposites: never unknown; nothing is found in what is no text."""
    inner, holds = left.evaluate, TEXT_TESTS[keyword]

    def evaluate(data: bytes) -> Value:
        if not wanted:
            return False
        value = inner(data)
        return isinstance(value, str) and holds(value, wanted) is not negative

    node = _over(CONDITION, evaluate, left.at, left)
    if keyword == "CONTAINS":
        node.size += CONTAINS_STEPS - 1
    return node


def one_of(left: Node, wanted: Sequence[str], *, negative: bool) -> Node:
    """IN and NOT IN a list of strings."""
    inner, members = left.evaluate, frozenset(wanted)

    def evaluate(data: bytes) -> Value:
        value = inner(data)
        return None if value is None else (value in members) is not negative

    return _over(CONDITION, evaluate, left.at, left)
