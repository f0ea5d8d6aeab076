"""State machines open hundreds of real stores: a disk that others keep busy must not fail them."""

from __future__ import annotations

from pathlib import Path

import pytest

MACHINES_TIMEOUT_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.stem.endswith("_model"):
            item.add_marker(pytest.mark.timeout(MACHINES_TIMEOUT_S))
