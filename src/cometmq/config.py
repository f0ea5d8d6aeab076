"""Settings: Java's keys in Java's files, read into frozen sections.

A section is a frozen dataclass whose fields are snake_case; the key in a file is the same in camelCase
(`flush_disk_type` ↔ `flushDiskType`). Types are those of the annotations: str, int, float, bool, or `| None`.
Unknown keys are kept aside: people paste old files, so they get a warning with the nearest known name, not an error.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

from cometmq.errors import ConfigError

_S = TypeVar("_S")

NEAR: Final = (
    0.8  # as alike as a slip of the pen: `aclEnable` is nearest to `traceTopicEnable`, and means another thing
)

# Keys that size Java's pools of threads, or say how long a request may wait in the queue of one.
_JAVA_THREADS: Final = re.compile(r"waitTimeMillsIn\w+Queue|\w+Threads|\w*ThreadPool(Nums|QueueCapacity)")


def read_properties(path: str | Path) -> dict[str, str]:
    """A `key=value` file as java.util.Properties reads it (without its \\u escapes in keys)."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as broken:
        raise ConfigError(f"cannot read the configuration file {path}: {broken}") from None
    return parse_properties(text)


def parse_properties(text: str) -> dict[str, str]:
    """The pairs of `key=value` lines; `#` and `!` begin comments, a final backslash continues a line."""
    found: dict[str, str] = {}
    for line in text.replace("\\\r\n", "").replace("\\\n", "").splitlines():
        line = line.strip()
        if not line or line[0] in "#!":
            continue
        at = min((i for i in (line.find("="), line.find(":")) if i >= 0), default=-1)
        key, value = (line[:at], line[at + 1 :]) if at >= 0 else (line, "")
        found[key.strip()] = value.strip()
    return found


def java_key(attribute: str) -> str:
    """`flush_disk_type` → `flushDiskType`; a field may carry its own in metadata["key"]."""
    first, *rest = attribute.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest)


def keys_of(section: type) -> dict[str, str]:
    """Java key → field name of a section."""
    return {item.metadata.get("key", java_key(item.name)): item.name for item in dataclasses.fields(section)}


def section(cls: type[_S], values: Mapping[str, str], **fixed: Any) -> _S:
    """Make a section from the keys in `values` that belong to it; `fixed` wins over both."""
    hints = get_type_hints(cls)
    given: dict[str, Any] = {}
    for key, name in keys_of(cls).items():
        if key in values and name not in fixed:
            given[name] = _convert(key, values[key], hints[name])
    return cls(**given, **fixed)


def _convert(key: str, text: str, hint: Any) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
    text = text.strip()
    try:
        if hint is bool:
            return {"true": True, "false": False}[text.lower()]
        if hint is int:
            return int(text)
        if hint is float:
            return float(text)
    except (ValueError, KeyError):
        kind = {bool: "true or false", int: "a whole number", float: "a number"}[hint]
        raise ConfigError(f"{key}={text}: {kind} is expected") from None
    return text


def render(value: Any) -> dict[str, str]:
    """A section as Java's keys and values, for get-config answers."""
    pairs = {}
    for key, name in keys_of(type(value)).items():
        item = getattr(value, name)
        if item is not None:
            pairs[key] = ("true" if item else "false") if isinstance(item, bool) else str(item)
    return pairs


def unknown_keys(values: Iterable[str], sections: Iterable[type]) -> list[str]:
    """One sentence for each key that no section knows, with the nearest that one does."""
    known = {key for cls in sections for key in keys_of(cls)}
    warnings = []
    for key in values:
        if key in known:
            continue
        if _JAVA_THREADS.fullmatch(key):
            warnings.append(f"the key {key} has no effect: no request waits for a thread here, so nothing is to be set")
        else:
            near = difflib.get_close_matches(key, known, n=1, cutoff=NEAR)
            hint = f"; did you mean {near[0]}?" if near else ""
            warnings.append(f"the key {key} is not known and has no effect{hint}")
    return warnings
