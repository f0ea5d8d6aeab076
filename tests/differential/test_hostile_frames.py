"""Bytes that are no requests: the same answers as the original gives, or the same closed connection."""

from __future__ import annotations

import pytest

from .comparison import SERVERS, Comparison
from .frames import HOSTILE
from .script import Server

pytestmark = pytest.mark.xdist_group("differential")


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("name", HOSTILE)
def test_the_connection_ends_alike(comparison: Comparison, name: str, server: Server) -> None:
    assert not list(map(str, comparison.unexplained_end(name, server)))
