"""What messages are indexed under, and the entries that become of it.

A message has an entry for its unique key, one for each of its keys and one for its tags, in this order; a rolled back
transaction has none. The hash of an entry is Java's of `topic#key`, made positive.

`PendingEntries` collects them. Where the extension is built they are hashed as they come; in pure Python unique keys,
which most messages have and which are all as long, wait to be hashed together.

Mirrors: IndexService.buildIndex, buildKey; IndexFile.indexKeyHashMethod.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from cometmq import compiled
from cometmq.model.java_hash import (
    FOLDED_COUNT_MAX,
    FOLDED_LENGTH,
    POWER_OF_FOLDED,
    REMEMBERED_LENGTH_MAX,
    unsigned_hash,
    unsigned_hashes,
)
from cometmq.model.properties import KEY_SEPARATOR
from cometmq.store.append import Entry as Message
from cometmq.store.index_file import Entry

TAG_TYPE: Final = "T"
TAG_PREFIX: Final = f"{TAG_TYPE}#"
PENDING_MAX: Final = FOLDED_COUNT_MAX  # entries settle together, for speed; this many do not wait longer
ROLLBACK: Final = 0xC

_PREFIXES_MAX: Final = 10_000

# An entry to be: its hash, or None if it is that of the next unique key, which is still to be worked out and added
# to the second number, the topic's part of it; CommitLog offset and store time.
_Pending = tuple["int | None", int, int, int]


def index_keys(uniq_key: str | None, keys: str | None, tags: str | None) -> list[str]:
    """What a message is indexed under, in Java's order; none for a transaction's rollback (the caller knows)."""
    found = [uniq_key] if uniq_key else []
    if keys:
        found += [key for key in keys.split(KEY_SEPARATOR) if key]
    if tags:
        found.append(TAG_PREFIX + tags)
    return found


def positive_hash(text: str, prefix_hash: int = 0) -> int:
    """The hash of a key as entries store it: Java's `abs(hashCode)`, with the one value that has no abs as 0."""
    return _positive(unsigned_hash(text, prefix_hash))


def _positive(value: int) -> int:
    """Of any number with the right lower 32 bits."""
    return (-value & 0x7FFF_FFFF) if value & 0x8000_0000 else value & 0x7FFF_FFFF


@lru_cache(_PREFIXES_MAX)
def topic_hash(topic: str) -> int:
    """The hash of `topic#`."""
    return unsigned_hash(f"{topic}#")


@lru_cache(4096)
def _remembered_tag_hash(tags: str, prefix_hash: int) -> int:
    return positive_hash(TAG_PREFIX + tags, prefix_hash)


def _tag_hash(tags: str, prefix_hash: int) -> int:
    if len(tags) <= REMEMBERED_LENGTH_MAX:
        return _remembered_tag_hash(tags, prefix_hash)
    return positive_hash(TAG_PREFIX + tags, prefix_hash)


class PendingEntries:
    """Entries that are not in a file."""

    def __init__(self) -> None:
        self._pending: list[_Pending] = []
        self._unique_keys: list[str] = []  # of the pending entries that have no hash yet

    def __len__(self) -> int:
        return len(self._pending)

    def put(self, topic: str, keys: list[str], physical_offset: int, store_time_ms: int) -> None:
        """The entries of one message, whatever it is indexed under."""
        prefix_hash = topic_hash(topic)
        self._pending += [(positive_hash(key, prefix_hash), 0, physical_offset, store_time_ms) for key in keys]

    def put_messages(self, messages: list[Message]) -> None:
        """The entries of messages that were just appended."""
        pending, unique_keys = self._pending, self._unique_keys
        for _, queue, at, _, _, _, keys, uniq_key, store_time_ms, sys_flag, tags in messages:
            if sys_flag & ROLLBACK == ROLLBACK:
                continue
            prefix_hash = topic_hash(queue.topic)
            if uniq_key:
                if len(uniq_key) == FOLDED_LENGTH and uniq_key.isascii():
                    unique_keys.append(uniq_key)
                    pending.append((None, prefix_hash * POWER_OF_FOLDED, at, store_time_ms))
                else:
                    pending.append((positive_hash(uniq_key, prefix_hash), 0, at, store_time_ms))
            if keys:
                for key in keys.split(KEY_SEPARATOR):
                    if key:
                        pending.append((positive_hash(key, prefix_hash), 0, at, store_time_ms))
            if tags:
                pending.append((_tag_hash(tags, prefix_hash), 0, at, store_time_ms))

    def take(self) -> list[Entry]:
        """All of them; none is left."""
        unique_keys = self._unique_keys
        chunks = (unique_keys[at : at + FOLDED_COUNT_MAX] for at in range(0, len(unique_keys), FOLDED_COUNT_MAX))
        unique = (value for chunk in chunks for value in unsigned_hashes(chunk))
        entries = [
            (_positive(next(unique) + part) if key_hash is None else key_hash, at, store_time_ms)
            for key_hash, part, at, store_time_ms in self._pending
        ]
        self._pending.clear()
        self._unique_keys.clear()
        return entries


class CompiledPendingEntries:
    """The same, hashed by the extension."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, topic: str, keys: list[str], physical_offset: int, store_time_ms: int) -> None:
        prefix_hash = topic_hash(topic)
        self._entries += [(positive_hash(key, prefix_hash), physical_offset, store_time_ms) for key in keys]

    def put_messages(self, messages: list[Message]) -> None:
        self._entries += compiled.twins.entries_of(messages, KEY_SEPARATOR, TAG_PREFIX)

    def take(self) -> list[Entry]:
        entries, self._entries = self._entries, []
        return entries


def pending_entries() -> PendingEntries | CompiledPendingEntries:
    """The quicker of the twins."""
    return PendingEntries() if compiled.twins is None else CompiledPendingEntries()
