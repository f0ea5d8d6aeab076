"""The bar: only for people, only after a second, and gone at the end."""

from __future__ import annotations

import io

import pytest

from cometmq.cli.progress import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_waits_a_second_and_wipes_itself_off() -> None:
    out, now = Terminal(), [0.0]
    bar = ProgressBar("replaying", out, lambda: now[0])
    for now[0] in (0.1, 0.9):
        bar(1, 10)
    assert out.getvalue() == ""
    now[0] = 1.2
    bar(5 << 30, 10 << 30)
    assert "replaying  [############............]   50 %  10.0 GiB" in out.getvalue().replace("\r", "")
    drawn = out.getvalue()
    now[0] = 1.25
    bar(6 << 30, 10 << 30)
    assert out.getvalue() == drawn  # not every call
    bar.close()
    assert out.getvalue().endswith(" \r")


@pytest.mark.parametrize("total", [0, -1, 5])
def test_odd_totals(total: int) -> None:
    out, now = Terminal(), [0.0]
    bar = ProgressBar("x", out, lambda: now[0])
    now[0] = 5
    bar(7, total)
    assert "100 %" in out.getvalue()


def test_a_file_gets_none() -> None:
    out, now = io.StringIO(), [0.0]
    bar = ProgressBar("x", out, lambda: now[0])
    now[0] = 5
    bar(1, 2)
    bar.close()
    assert out.getvalue() == ""
