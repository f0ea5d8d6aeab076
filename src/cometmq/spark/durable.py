"""What a driver or a task has written, to the disk."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Let a file's bytes, or the names in a folder, outlast a power cut."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folder(folder: Path) -> None:
    """Make a folder and what is missing above it, each of them to outlast a power cut."""
    names = [folder, *(one for one in folder.parents if not one.exists())]
    folder.mkdir(parents=True, exist_ok=True)
    for one in names:
        sync(one.parent)
