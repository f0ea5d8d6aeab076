"""Tables of the catalog: `CREATE TABLE t USING rocketmq OPTIONS (…)`.

Spark (4.3) gives a Python source the options of a table when the table is made, and none of them when it is read. What
it does give then is the schema, so the options are kept there, in the metadata of the first column. A table that is
made with columns of its own has no place for them, as Spark does not ask the source for its schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson
from pyspark.sql.types import StructField, StructType

KEPT: Final = "rocketmq"
_PREFIX: Final = "option."  # as the catalog spells the options of a table, beside its properties


def catalog_options(given: Mapping[str, str]) -> dict[str, str] | None:
    """The options of a table that is being made; None if this is no table of the catalog."""
    found = {name.removeprefix(_PREFIX): value for name, value in given.items() if name.startswith(_PREFIX)}
    return found or None


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema with the options in it."""
    first, *others = schema.fields
    metadata = {**first.metadata, KEPT: orjson.dumps(dict(options)).decode()}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def kept_options(schema: StructType) -> dict[str, str]:
    """The options that `with_options` left in a schema."""
    for field in schema.fields:
        if KEPT in field.metadata:
            found = orjson.loads(field.metadata[KEPT])
            return {str(name): str(value) for name, value in found.items()}
    return {}
