"""What rows look like: the columns of messages, and of the lines of a message trace.

A `Shape` says which columns of records are walked and how their batches become the rows that were asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import pyarrow
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from cometmq.columns import COLUMNS, schema
from cometmq.errors import InvalidArgument
from cometmq.spark import trace_rows
from cometmq.spark.options import Words, is_trace

INCLUDING = {"includeBody": "body", "includeHeaders": "properties"}

Change = Callable[[pyarrow.RecordBatch], pyarrow.RecordBatch]


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns to walk, and what is made of them; None is nothing."""

    walked: tuple[str, ...]
    change: Change | None = None


def shape_of(given: Mapping[str, str], columns: Sequence[str]) -> Shape:
    """How rows of these columns are made."""
    if not is_trace(Words(given)):
        return Shape(tuple(columns))
    return Shape(trace_rows.WALKED, lambda batch: trace_rows.rows_of(batch, columns))


def arrow_schema(given: Mapping[str, str]) -> pyarrow.Schema:
    """The columns that the options ask for; all of them, unless some are named or the body is left out."""
    words = Words(given)
    all_columns = trace_rows.SCHEMA if is_trace(words) else schema(COLUMNS)
    return chosen(words, all_columns)


def chosen(words: Words, all_columns: pyarrow.Schema) -> pyarrow.Schema:
    """Those that `columns`, `includeBody` and `includeHeaders` leave."""
    names = list(all_columns.names)
    included = {column: words.flag(option, True) for option, column in INCLUDING.items() if option in words}
    if "columns" not in words:
        return pyarrow.schema([all_columns.field(name) for name in names if included.get(name, True)])
    asked = [name.strip().lower() for name in (words.text("columns") or "").split(",")]
    for name in asked:
        _check_column(name, names)
        if asked.count(name) > 1:
            raise InvalidArgument(f"the option columns names {name} twice")
    for option, column in INCLUDING.items():
        if included.get(column, column in asked) != (column in asked):
            told = "leaves it out" if column in asked else "asks for it"
            verb = "names" if column in asked else "does not name"
            raise InvalidArgument(f"the option columns {verb} {column}, and {option}={words.text(option)} {told}")
    return pyarrow.schema([all_columns.field(name) for name in asked])


def _check_column(name: str, names: Sequence[str]) -> None:
    if name not in names:
        near = get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
        raise InvalidArgument(f"the option columns: there is no column {name!r}: {hint}")


def spark_schema(found: pyarrow.Schema) -> StructType:
    return from_arrow_schema(found)


def check_given_schema(asked: StructType, possible: pyarrow.Schema) -> tuple[str, ...]:
    """Take the schema that a user gave (`.schema(…)`, `CREATE TABLE t (…)`) as a choice of columns."""
    known = {field.name: field.dataType for field in spark_schema(possible).fields}
    for field in asked.fields:
        _check_column(field.name, list(known))
        if field.dataType != known[field.name]:
            raise InvalidArgument(
                f"the column {field.name} is {known[field.name].simpleString()}, not {field.dataType.simpleString()}: "
                "read it as it is, and cast it in the query"
            )
    if not asked.fields:
        raise InvalidArgument("the schema names no column")
    return tuple(asked.fieldNames())
