"""The properties of a producer's message: what the broker must know of them, and what it stores.

Most messages of a producer differ from each other in the unique key and the keys alone. So these are cut out, and what
is left is read once and remembered as a `Shape`, however many follow; `complete` is for the others, and is the rule.

Mirrors: SendMessageProcessor.sendMessage, MessageDecoder.string2messageProperties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Final, NamedTuple

from cometmq.model import properties
from cometmq.model.properties import parse, render
from cometmq.store.append import BatchItem
from cometmq.wire.batch import SubRecord

SHAPES_MAX: Final = 10_000
SHAPE_SIZE_MAX: Final = 128  # characters: what is longer hardly repeats
POP_CK: Final = "POP_CK"

_UNIQ_KEY: Final = f"{properties.UNIQ_KEY}\x01"
_UNIQ_KEY_SIZE: Final = len(_UNIQ_KEY)
_KEYS: Final = f"{properties.KEYS}\x01"
_KEYS_SIZE: Final = len(_KEYS)
_LATER_KEYS: Final = f"\x02{_KEYS}"


class Shape(NamedTuple):
    """What sound properties say, but for the unique key and the keys."""

    tags: str | None
    waits: bool  # for the disk
    plain: bool  # nothing in them concerns the broker: they are stored as they came, its own behind them


class SentProperties:
    """Reads and completes properties. `special` names those that the broker acts on; all are known when it serves."""

    def __init__(self, own: Mapping[str, str], special: Set[str], make_unique_key: Callable[[], str]) -> None:
        self.own = own
        self.own_text = render(own)
        self._special = special
        self._reserved = {*own, POP_CK, properties.TRANSACTION_PREPARED}
        self._make_unique_key = make_unique_key
        self.shapes: dict[str, Shape] = {}  # by what is left without the unique key, and without the value of the keys

    def read(self, text: str) -> tuple[str, str | None, Shape] | None:
        """Of closed properties the unique key, keys and shape.

        None if there is no unique key, or a piece that is no property, or one twice.
        """
        at = text.find(_UNIQ_KEY)
        end = text.find("\x02", at)
        if at < 0 or end <= at + _UNIQ_KEY_SIZE or (at and text[at - 1] != "\x02"):
            return None
        uniq_key, rest, keys = text[at + _UNIQ_KEY_SIZE : end], text[:at] + text[end + 1 :], None
        at = rest.find(_LATER_KEYS) + 1
        if at or rest.startswith(_KEYS):
            end = rest.find("\x02", at)
            keys = rest[at + _KEYS_SIZE : end]
            if end < 0 or not keys:
                return None
            rest = rest[: at + _KEYS_SIZE] + rest[end:]
        shape = self.shapes.get(rest)
        if shape is None:
            shape = self._look(text, rest)
            if shape is None:
                return None
        return uniq_key, keys, shape

    def _look(self, text: str, rest: str) -> Shape | None:
        found = parse(text)
        if text.count("\x02") != len(found) or not text.endswith("\x02"):
            return None
        plain = found.keys().isdisjoint(self._reserved) and found.keys().isdisjoint(self._special)
        shape = Shape(found.get(properties.TAGS), waits(found), plain)
        if len(rest) <= SHAPE_SIZE_MAX:
            if len(self.shapes) >= SHAPES_MAX:
                self.shapes.clear()
            self.shapes[rest] = shape
        return shape

    def of_batch(self, messages: Iterable[SubRecord]) -> list[BatchItem]:
        """The messages of a batch with what they are found by: tags, keys, unique key."""
        read = self.read
        items: list[BatchItem] = []
        for flag, body, data in messages:
            text = closed(str(data, "utf-8", "replace"))
            sent = read(text)
            if sent is not None:
                uniq_key, keys, shape = sent
                items.append((flag, body, data, shape.tags, keys, uniq_key))
            elif data:
                found = parse(text)
                words = found.get(properties.TAGS), found.get(properties.KEYS), found.get(properties.UNIQ_KEY)
                items.append((flag, body, data, *words))
            else:
                items.append((flag, body, data, None, None, None))
        return items

    def complete(self, text: str) -> tuple[str, dict[str, str]]:
        """What is stored: the producer's properties, the unique key if it gave none, and those of the broker."""
        found = parse(text)
        found.pop(POP_CK, None)
        text = closed(text)
        if text.count("\x02") != len(found):  # pieces that are no properties, or twice the same
            text = render(found)
        if not found.get(properties.UNIQ_KEY):
            found[properties.UNIQ_KEY] = uniq_key = self._make_unique_key()
            text = f"{text}{properties.UNIQ_KEY}\x01{uniq_key}\x02"
        if found.keys().isdisjoint(self.own):
            text += self.own_text
        else:
            found.update(self.own)
            text = render(found)
        return text, found


def closed(text: str) -> str:
    """Properties as clients of version 5 write them; those of version 4 leave the last separator out."""
    return text if text.endswith("\x02") or not text else text + "\x02"


def waits(found: Mapping[str, str]) -> bool:
    """Whether the producer wants to wait for the disk."""
    wait = found.get(properties.WAIT)
    return wait is None or wait.lower() == "true"
