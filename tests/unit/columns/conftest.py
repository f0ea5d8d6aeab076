"""Both twins of the walk, and records to walk over."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from cometmq import compiled
from cometmq.columns import COLUMNS, RecordColumns
from cometmq.columns.twins import make_walk

MakeColumns = Callable[..., RecordColumns]


@pytest.fixture(params=["pure", "compiled"])
def make_columns(request: pytest.FixtureRequest) -> MakeColumns:
    """`make_columns(["body"], topics=…)` of one twin after the other."""
    is_pure = request.param == "pure"
    if not is_pure and compiled.twins is None:
        pytest.skip("the extension is not built here")

    def make(columns: Sequence[str] = COLUMNS, **filters: object) -> RecordColumns:
        walk = make_walk(columns, pure=is_pure, **filters)  # type: ignore[arg-type]
        return RecordColumns(columns, "broker-a", walk, filters.get("unpack"))  # type: ignore[arg-type]

    return make
