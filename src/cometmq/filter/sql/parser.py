"""The grammar of SQL92 filters, and what it refuses.

    or         = and { OR and }
    and        = equality { AND equality }
    equality   = comparison { ("=" | "<>") comparison | IS [NOT] NULL }
    comparison = unary { (">" | ">=" | "<" | "<=") unary
                       | [NOT] (CONTAINS | STARTSWITH | ENDSWITH) string
                       | [NOT] BETWEEN unary AND unary
                       | [NOT] IN "(" string { "," string } ")" }
    unary      = { "+" | "-" | NOT } ( string | number | TRUE | FALSE | NULL | name | "(" or ")" )

There is no LIKE in the original: `a LIKE 'x'` is the condition `a` and words behind it, which are not looked at.
Maxima: `LENGTH_MAX` characters, `NESTING_MAX` deep, `NODES_MAX` nodes; the original has none and runs out of stack.
`REMEMBERED_MAX` expressions are kept, good and bad ones: a consumer may send its own with every pull.

Mirrors: SelectorParser.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import inf
from typing import Final, NoReturn

from cometmq.errors import FilterRefused
from cometmq.filter.sql import expression as make
from cometmq.filter.sql.expression import CONDITION, CONSTANT, ORDERS, PROPERTY, TEXT_TESTS, Evaluate, Expression, Node
from cometmq.filter.sql.lexer import END, FLOAT, NAME, STRING, WHOLE, Lexer, Token, refuse, unquoted
from cometmq.filter.sql.values import INTEGER_MAX, LONG_MAX, Long, compare

LENGTH_MAX: Final = 32_768
NESTING_MAX: Final = 128
NODES_MAX: Final = 4_096
REMEMBERED_MAX: Final = 128

OR, AND, EQUALITY, COMPARISON = 1, 2, 3, 4
_AFTER_NOT: Final = frozenset({*TEXT_TESTS, "BETWEEN", "IN"})
_BONDS: Final = {
    "OR": OR,
    "AND": AND,
    **dict.fromkeys(("=", "<>", "IS"), EQUALITY),
    **dict.fromkeys((*ORDERS, *_AFTER_NOT, "NOT"), COMPARISON),
}
_LONG_DIGITS_MAX: Final = 19
_NAMES: Final = {END: "the end", NAME: "a property", STRING: "a string", WHOLE: "a number", FLOAT: "a number"}
_WORD_CONSTANTS: Final = {"TRUE": True, "FALSE": False, "NULL": None}


def parse(text: str) -> Expression:
    """Read an expression; raises `FilterRefused` with the place of the fault."""
    if len(text) > LENGTH_MAX:
        raise FilterRefused(
            f"the SQL92 filter has {len(text)} characters, and {LENGTH_MAX} is the most allowed: shorten it", LENGTH_MAX
        )
    found = _parse_once(text)
    if isinstance(found, Expression):
        return found
    raise FilterRefused(str(found), found.at)  # anew: a kept one would gather tracebacks


@lru_cache(REMEMBERED_MAX)
def _parse_once(text: str) -> Expression | FilterRefused:
    try:
        return _Parser(text).expression()
    except FilterRefused as refused:
        return FilterRefused(str(refused), refused.at)


class _Parser:
    """Reads one expression, one word ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lexer = Lexer(text)
        self._token = self._lexer.next()
        self._nesting = 0
        self._lookups: dict[str, Evaluate] = {}

    def expression(self) -> Expression:
        return Expression(self._text, self._condition(self._expression()))

    # --- words

    def _take(self) -> Token:
        token = self._token
        self._token = self._lexer.next()
        return token

    def _expect(self, kind: str) -> Token:
        if self._token.kind != kind:
            self._refuse_token(f"{_NAMES.get(kind, kind)} is expected")
        return self._take()

    def _refuse_token(self, why: str) -> NoReturn:
        found = self._token.kind
        self._refuse(self._token.at, f"{why}, but {_NAMES.get(found, found)} stands here")

    def _refuse(self, at: int, why: str) -> NoReturn:
        refuse(self._text, at, why)

    # --- the grammar: operators by how tightly they bind

    def _expression(self, loosest: int = OR) -> Node:
        """Operands joined by operators that bind at least as tightly as `loosest`."""
        left = self._unary()
        tightest = COMPARISON
        while loosest <= (bond := _BONDS.get(self._token.kind, 0)) <= tightest:
            tightest = bond  # behind `a IS NULL` no `>` follows; the original stops reading there
            if bond == OR:
                self._take()
                left = self._joined(make.any_of, left, self._expression(AND))
            elif bond == AND:
                self._take()
                left = self._joined(make.all_of, left, self._expression(EQUALITY))
            elif bond == EQUALITY:
                left = self._equality(left)
            else:
                left = self._comparison(left)
        return left

    def _joined(self, join: Callable[[Node, Node], Node], left: Node, right: Node) -> Node:
        return self._made(join(self._condition(left), self._condition(right)))

    def _equality(self, left: Node) -> Node:
        kind = self._take().kind
        if kind == "IS":
            negative = self._token.kind == "NOT"
            if negative:
                self._take()
            right = make.constant(None, self._expect("NULL").at)
        else:
            negative = kind == "<>"
            right = self._expression(COMPARISON)
            self._check_equal(left, right)
        equal = self._made(make.equal(left, right))
        return self._made(make.inverted(equal, left.at)) if negative else equal

    def _comparison(self, left: Node) -> Node:
        kind = self._take().kind
        if kind in ORDERS:
            return self._ordered(left, kind, self._unary())
        negative = kind == "NOT"
        if negative:
            kind = self._token.kind
            if kind not in _AFTER_NOT:
                self._refuse_token("CONTAINS, STARTSWITH, ENDSWITH, BETWEEN or IN is expected after NOT")
            self._take()
        if kind == "BETWEEN":
            return self._between(left, negative=negative)
        if kind == "IN":
            return self._in(left, negative=negative)
        wanted = unquoted(self._expect(STRING).text)
        return self._made(make.text_test(left, kind, wanted, negative=negative))

    def _between(self, value: Node, *, negative: bool) -> Node:
        low = self._unary()
        self._expect("AND")
        high = self._unary()
        if negative:
            return self._made(make.any_of(self._ordered(value, "<", low), self._ordered(value, ">", high)))
        parts = self._ordered(value, ">=", low), self._ordered(value, "<=", high)
        if low.kind == high.kind == CONSTANT and compare(high.value, low.value) < 0:
            self._refuse(low.at, "the lower bound of BETWEEN is above the upper one")
        return self._made(make.all_of(*parts))

    def _in(self, left: Node, *, negative: bool) -> Node:
        if left.kind != PROPERTY:
            self._refuse(left.at, "only a property can be asked whether it is IN a list")
        self._expect("(")
        wanted = [unquoted(self._expect(STRING).text)]
        while self._token.kind == ",":
            self._take()
            wanted.append(unquoted(self._expect(STRING).text))
        self._expect(")")
        return self._made(make.one_of(left, wanted, negative=negative))

    def _unary(self) -> Node:
        prefixes: list[Token] = []
        while self._token.kind in ("+", "-", "NOT"):
            prefixes.append(self._take())
            if len(prefixes) > NESTING_MAX:
                self._too_deep(prefixes[0].at)
        node = self._primary()
        for prefix in reversed(prefixes):
            if prefix.kind == "-":
                node = self._made(make.negated(node, prefix.at))
            elif prefix.kind == "NOT":
                node = self._made(make.inverted(self._condition(node), prefix.at))
        return node

    def _primary(self) -> Node:
        kind, text, at = self._token
        if kind == "(":
            self._take()
            self._nesting += 1
            if self._nesting > NESTING_MAX:
                self._too_deep(at)
            node = self._expression()
            self._expect(")")
            self._nesting -= 1
            return node
        if kind == NAME:
            if text not in self._lookups:
                self._lookups[text] = make.property_lookup(text)
            node = make.property_named(text, at, self._lookups[text])
        elif kind == STRING:
            node = make.constant(unquoted(text), at)
        elif kind == WHOLE:
            node = make.constant(self._whole(text, at), at)
        elif kind == FLOAT:
            node = make.constant(self._float(text, at), at)
        elif kind in _WORD_CONSTANTS:
            node = make.constant(_WORD_CONSTANTS[kind], at)
        else:
            self._refuse_token("a property, a value or '(' is expected")
        self._take()
        return self._made(node)

    # --- what the original checks while it builds

    def _condition(self, node: Node) -> Node:
        if node.kind == PROPERTY:
            return self._made(make.condition(node))
        if not node.is_condition:
            self._refuse(node.at, "this is a value, and a condition is expected")
        return node

    def _check_equal(self, left: Node, right: Node) -> None:
        for side in (left, right):
            if side.kind == CONSTANT and side.value is None:
                self._refuse(side.at, "nothing is = NULL; write IS NULL")
        if left.kind == right.kind == CONSTANT and isinstance(left.value, bool) and not isinstance(right.value, bool):
            self._refuse(left.at, "TRUE and FALSE cannot be compared with this constant")

    def _ordered(self, left: Node, sign: str, right: Node) -> Node:
        for side in (left, right):
            if side.kind == CONDITION or side.is_condition or isinstance(side.value, str):
                self._refuse(side.at, "only properties and numbers have an order")
        return self._made(make.ordered(left, sign, right))

    def _whole(self, text: str, at: int) -> int:
        digits = text.rstrip("lL")
        number = int(digits) if len(digits) <= _LONG_DIGITS_MAX else LONG_MAX + 1
        if number > LONG_MAX:
            self._refuse(at, f"{digits[:30]} is more than {LONG_MAX}")
        return number if number <= INTEGER_MAX else Long(number)

    def _float(self, text: str, at: int) -> float:
        number = float(text)
        if not 0 < number < inf:  # the original has no 0.0 either
            self._refuse(at, f"a number with a point must lie between 4.9E-324 and 1.79E308, not {text[:30]}")
        return number

    def _made(self, node: Node) -> Node:
        if node.depth > 2 * NESTING_MAX:
            self._too_deep(node.at)
        if node.size > NODES_MAX:
            self._refuse(
                node.at, f"the filter has more than {NODES_MAX} parts: shorten it; IN takes a list of any length"
            )
        return node

    def _too_deep(self, at: int) -> NoReturn:
        self._refuse(at, f"the filter is nested more than {NESTING_MAX} deep: write it flatter")
