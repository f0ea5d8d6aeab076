"""Small files that must be whole: written beside their place, synced, renamed into it; the version before is kept.

kvConfig.json       as it is now
kvConfig.json.bak   as it was before the last change, as Java keeps it
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from cometmq.errors import ConfigError


def write_whole(path: str, data: bytes) -> None:
    """Replace the file's content, or leave it as it was and raise."""
    place = Path(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            _replace(place.with_name(place.name + ".bak"), place.read_bytes())
        _replace(place, data)
    except OSError as broken:
        raise ConfigError(
            f"cannot write {path}: {broken}. Check that the folder is writable and the disk not full."
        ) from None


def _replace(place: Path, data: bytes) -> None:
    draft = place.with_name(place.name + ".tmp")
    with open(draft, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(place)
    folder = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
