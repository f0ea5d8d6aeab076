"""Scripts: a request, what comes before and after it, and the bad requests derived from it.

Texts may hold `{placeholders}`: the names of the case (`{topic}`, `{group}`, ...), or what an earlier answer said
(`{sent[msgId]}` after an ask that was kept as `sent`). From the one valid request of a script are derived, for each
of its fields, a request without it, one with a value of the wrong type, one that overflows, and one that names
something absent; the fields of a JSON body are treated alike.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from cometmq.wire.codes import VERSION, LanguageCode

Server = Literal["namesrv", "broker", "fast"]
Form = Literal["json", "binary"]

FORMS: tuple[Form, ...] = ("json", "binary")
VALID = "valid"
OVERFLOW = "99999999999999999999"

_ABSENT = re.compile(r"\{(topic|group|cluster|broker|namespace)\}")


@dataclass(frozen=True)
class Ask:
    """One request. With `until` it is repeated until its answer satisfies that; with `keep` its answer is kept."""

    code: int
    fields: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    """bytes as they are; anything else is filled and written as JSON."""
    keep: str = ""
    until: Callable[[dict[str, Any], dict[str, Any]], bool] | None = None
    """Given the answer, and what placeholders stand for."""
    again: Ask | None = None
    """Asked anew before each repetition, of a server that may have lost it."""
    one_way: bool = False
    pending: str = ""
    """Do not wait for the answer now: `Await` this name later."""
    version: int = VERSION
    language: int = int(LanguageCode.JAVA)
    peer: str = ""
    """Which of the script's connections it goes by, where there is more than one."""
    only_known: bool = False
    """Of the answer is kept only whether the server knows the code."""

    def but(self, **fields: str) -> Ask:
        """The same with other fields."""
        return replace(self, fields={**self.fields, **fields})


@dataclass(frozen=True)
class Await:
    """Take the answer of an earlier ask that was left pending."""

    pending: str


@dataclass(frozen=True)
class Pushed:
    """What the server has sent by itself to one of the script's connections, once it has sent something."""

    peer: str
    keep: str = ""
    """The name under which the fields of the first such request are kept."""


@dataclass(frozen=True)
class Closed:
    """One of the script's connections is closed, as when its client dies."""

    peer: str


@dataclass(frozen=True)
class Silent:
    """The server has sent nothing by itself to one of the script's connections, and does not for a moment."""

    peer: str


@dataclass(frozen=True)
class Pause:
    """Time for what the server does after it has answered; nothing tells when it is done."""

    s: float = 0.05


Step = Ask | Await | Pushed | Pause | Closed | Silent


@dataclass(frozen=True)
class Script:
    """What is asked about one request code, or, with a title, a scene of its own."""

    server: Server
    ask: Ask
    before: tuple[Step, ...] = ()
    after: tuple[Step, ...] = ()
    fresh: bool = False
    """Each variant has names and a `before` of its own, because the request changes what it is about."""
    more: Mapping[str, Ask] = field(default_factory=dict)
    """Variants that cannot be derived."""
    title: str = ""

    @property
    def name(self) -> str:
        return self.title or f"{self.server}-{self.ask.code}"

    def variants(self) -> dict[str, Ask]:
        """The valid request, then each bad one by what is bad about it."""
        found = {VALID: self.ask}
        if not self.title:
            found.update(_bad_fields(self.ask))
            found.update(_bad_bodies(self.ask))
        found.update(self.more)
        return found


def _bad_fields(ask: Ask) -> Iterator[tuple[str, Ask]]:
    for name, value in ask.fields.items():
        yield f"missing {name}", replace(ask, fields={k: v for k, v in ask.fields.items() if k != name})
        if is_whole(value):
            yield f"overflow {name}", ask.but(**{name: OVERFLOW})
        if is_whole(value) or value in ("true", "false"):
            yield f"wrong type {name}", ask.but(**{name: "wrong"})
        if _ABSENT.search(value):
            yield f"absent {name}", ask.but(**{name: _ABSENT.sub(r"absent_{\1}", value)})


def _bad_bodies(ask: Ask) -> Iterator[tuple[str, Ask]]:
    if ask.body is None:
        return
    yield "missing body", replace(ask, body=None)
    if isinstance(ask.body, bytes):
        return
    yield "wrong type body", replace(ask, body=b"\x00 not JSON")
    for path, value in _places(ask.body):
        where = ".".join(str(part) for part in path)
        yield f"missing body.{where}", replace(ask, body=_without(ask.body, path))
        wrong = 7 if isinstance(value, str) else "wrong"
        yield f"wrong type body.{where}", replace(ask, body=_with(ask.body, path, wrong))


def is_whole(value: str) -> bool:
    return value.removeprefix("-").isdigit() or value in ("{crc}", "{now}", "{sent[physical]}", "{sent[queueOffset]}")


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The fields of a JSON body, however deep; of a list only the first item is looked into."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*path, key), inner
            yield from _places(inner, (*path, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield from _places(value[0], (*path, 0))


def _without(body: Any, path: tuple[Any, ...]) -> Any:
    body = copy.deepcopy(body)
    inner = body
    for part in path[:-1]:
        inner = inner[part]
    del inner[path[-1]]
    return body


def _with(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    body = copy.deepcopy(body)
    inner = body
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = value
    return body


def fill(value: Any, names: Mapping[str, Any]) -> Any:
    """Put names and kept answers in the place of the placeholders, also in the keys of a structure."""
    if isinstance(value, str):
        return value.format_map(names) if "{" in value else value
    if isinstance(value, dict):
        return {fill(k, names): fill(v, names) for k, v in value.items()}
    if isinstance(value, list):
        return [fill(item, names) for item in value]
    return value
