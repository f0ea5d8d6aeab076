"""SQL92 filters: an expression over a message's properties, read once and then asked of every message.

    lexer.py       text → tokens, one at a time
    parser.py      tokens → a tree of nodes; refuses with the place of the fault
    expression.py  what a node is, and the functions that nodes are made of
    values.py      how Java compares a text with a number, and what it refuses to compare

Invariants: only `FilterRefused` leaves `parse`; `Expression.matches` raises nothing; no expression is longer, deeper or
larger than the maxima in parser.py, so what one message costs is bounded.

Mirrors: SqlFilter, SelectorParser.
"""

from cometmq.filter.sql.expression import Expression
from cometmq.filter.sql.parser import NODES_MAX, parse
from cometmq.filter.sql.values import NotComparable

__all__ = ["NODES_MAX", "Expression", "NotComparable", "parse"]
