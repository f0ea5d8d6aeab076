"""What the commands of the benchmarks take, read and checked."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def some_of(known: tuple[str, ...]) -> Callable[[str], tuple[str, ...]]:
    """Names separated by commas, each a known one; they come back in the order in which they are known."""

    def read(text: str) -> tuple[str, ...]:
        chosen = {part.strip() for part in text.split(",")}
        for part in sorted(chosen.difference(known)):
            raise argparse.ArgumentTypeError(f"{part!r} is not one of {', '.join(known)}")
        return tuple(name for name in known if name in chosen)

    return read
