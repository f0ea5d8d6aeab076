"""Tables of the catalog: `CREATE TABLE t USING rocketmq OPTIONS (…)`.

Spark (4.3) gives a Python source the options of a table when the table is made, and none of them when it is read or
written. What it does give then is the schema, so the options are kept there, in the metadata of a column. A table that
is made with columns of its own, or by `AS SELECT`, has no place for them: Spark does not ask the source for its schema.

A column takes its metadata along wherever it goes, so what comes with the rows of a write may be the options of the
table that was read. Therefore:

- a table is read or written, never both, and only the options of one that is written count for a write;
- in one that is written the body is `Body` and cannot be null, in one that is read it is `body` and can: so Spark never
  takes columns for those of the target as they are, and gives them the target's metadata;
- who names a cluster or a topic in the options of the read or write itself means no table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson
from pyspark.sql.types import StructField, StructType

from cometmq.errors import InvalidArgument
from cometmq.spark.connecting import SECRETS, with_config
from cometmq.spark.options import CHOOSING, WRITING, Words
from cometmq.spark.sink_options import WriteOptions
from cometmq.spark.sink_rows import Columns, written_schema
from cometmq.spark.tables import table_of

KEPT: Final = "rocketmq"
_PREFIX: Final = "option."  # as the catalog spells the options of a table, beside its properties
_TO_READ: Final = (*CHOOSING, "storePath", "table", "list")
_MEANS_NO_TABLE: Final = ("namesrvAddr", "topic", *_TO_READ)
LOST: Final = (
    "no option has come with it. Of a table of the catalog they are kept only if it was made by CREATE TABLE … USING "
    "rocketmq OPTIONS (…), without columns of its own and without AS SELECT; toTable has no place for them either"
)


def catalog_options(given: Mapping[str, str]) -> dict[str, str] | None:
    """The options of a table that is being made; None if this is no table of the catalog."""
    if "provider" not in given:
        return None
    found = {name.removeprefix(_PREFIX): value for name, value in given.items() if name.startswith(_PREFIX)}
    if not found:
        raise InvalidArgument(
            "a table of the source rocketmq needs OPTIONS (namesrvAddr …, subscribe …); TBLPROPERTIES are no options"
        )
    if "location" in given:
        found["path"] = given["location"]  # which is refused with those that are unknown
    return found


def catalog_schema(options: Mapping[str, str]) -> StructType:
    """The schema of a table with these options, which are checked and kept in it."""
    words = Words(options)
    writing, reading = words.names(WRITING), words.names(_TO_READ)
    if writing and reading:
        raise InvalidArgument(
            f"the options {reading[0]} and {writing[0]} exclude each other in a table of the catalog: it is read or "
            "written. Make two tables"
        )
    if not writing:
        table = table_of(with_config(options))
        table.check()
        return _with_options(table.spark_schema(), options)
    write = WriteOptions.of(_of_the_sink(with_config(options)), is_stream=False)
    schema = written_schema(words.text("columns"), has_topic=write.topic is not None, id_column=write.id_column)
    Columns.of(schema, write.topic, write.id_column)
    return _with_options(schema, options)


def options_to_read(own: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """The options of a read: its own, on those of the table that it reads."""
    kept = {} if Words(own).names(_MEANS_NO_TABLE) else _kept(schema)
    if not kept and not own:
        raise InvalidArgument(f"this cannot be read: {LOST}")
    if Words(kept).names(WRITING):
        raise InvalidArgument("this table is written to (INSERT INTO); make another one with subscribe to read from")
    return {**kept, **own}


def options_to_write(own: Mapping[str, str], schema: StructType) -> dict[str, str]:
    """The same of a write."""
    words = Words(own)
    kept = {} if words.names(_MEANS_NO_TABLE) else _kept(schema)
    if Words(kept).names(WRITING):
        return {**_of_the_sink(kept), **own}
    if words.without_added():
        return dict(own)
    if not kept:
        raise InvalidArgument(f"this cannot be written: {LOST}")
    raise InvalidArgument(
        "the only options that have come with this write are those of a table that is read: a write needs options of "
        "its own, and INSERT INTO a table that was made with the option topic"
    )


def _of_the_sink(options: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name.lower() != "columns"}


def _with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    if secret := Words(options).names(SECRETS):
        raise InvalidArgument(
            f"a table of the catalog keeps its options for all to see, so {secret[0]} must not be one of them: write "
            "it into a file, and name that by clientConfig"
        )
    first, *others = schema.fields
    metadata = {**first.metadata, KEPT: orjson.dumps(dict(options)).decode()}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def _kept(schema: StructType) -> dict[str, str]:
    """The options that `_with_options` left in a schema."""
    for field in schema.fields:
        if KEPT in field.metadata:
            found = orjson.loads(field.metadata[KEPT])
            return {str(name): str(value) for name, value in found.items()}
    return {}
