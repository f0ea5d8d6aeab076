"""What a wrong option gives instead of a stream reader: one that says so in the first call.

If making the reader itself fails, PySpark (4.3) ends the query with an `UnboundLocalError` of its own.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from cometmq.errors import InvalidArgument
from cometmq.spark.carried import carried


class RefusingStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads nothing."""

    def __init__(self, told: str) -> None:
        self._told = told

    def __reduce__(self) -> tuple[Any, ...]:
        return carried(RefusingStreamReader, self._told)

    def _refuse(self) -> NoReturn:
        raise InvalidArgument(self._told)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        self._refuse()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._refuse()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        self._refuse()

    def read(self, partition: InputPartition) -> NoReturn:
        self._refuse()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        self._refuse()
