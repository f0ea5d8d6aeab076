"""A JSON header has a quick reader for sound peers and a patient one that is the rule: they agree on every input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cometmq.errors import ProtocolError
from cometmq.wire import command
from cometmq.wire.codes import LanguageCode
from cometmq.wire.command import Command

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.integers(-(2**33), 2**33) | st.integers(-1, 400)
scalars = st.none() | st.booleans() | numbers | st.floats() | texts | numbers.map(str)
odd = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2))
languages = st.sampled_from([language.name for language in LanguageCode]) | st.integers(-1, 300)
right: dict[str, st.SearchStrategy[Any]] = {
    "code": st.integers(0, 400), "opaque": st.integers(-(2**31), 2**31 - 1), "flag": st.integers(0, 3),
    "version": st.integers(0, 600), "language": languages, "remark": st.none() | texts,
    "extFields": st.dictionaries(texts, texts, max_size=4), "serializeTypeCurrentRPC": st.just("JSON"),
}  # fmt: skip
names = st.sampled_from([*right, "body", "serialize", "ext"]) | texts


@st.composite
def headers(draw: st.DrawFn) -> bytes:
    """Mostly sound; keys may be missing, strange or there twice, values of any kind, bytes cut or changed."""
    pairs = [(name, draw(values)) for name, values in right.items() if draw(st.integers(0, 19))]
    pairs += draw(st.lists(st.tuples(names, odd), max_size=2)) if draw(st.booleans()) else []
    pairs = draw(st.permutations(pairs))
    data = b"{%b}" % b",".join(orjson.dumps(name) + b":" + orjson.dumps(value) for name, value in pairs)
    if draw(st.booleans()):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=3)) + data[at + draw(st.integers(0, 3)) :]
    return data


def outcome(read: Callable[[], Command]) -> list[Any] | None:
    try:
        found = read()
    except ProtocolError:
        return None
    return [getattr(found, name) for name in Command.__struct_fields__ if name != "body"]


def sound(**changed: str) -> bytes:
    fields = {"code": "1", "opaque": "2", "flag": "0", "version": "3", "language": '"JAVA"', "extFields": '{"a":"b"}'}
    return b"{%s}" % ",".join(f'"{name}":{value}' for name, value in (fields | changed).items()).encode()


@settings(deadline=None)
@given(headers())
@example(sound())
@example(sound(code="1.0"))
@example(sound(code="true"))
@example(sound(opaque="2147483648"))
@example(sound(flag='"7"'))
@example(sound(language="1.0"))
@example(sound(extFields='{"a":null}'))
@example(sound(extFields='{7:"b"}'))
@example(sound(extFields='{"a":"\\ud800"}'))
@example(sound(body='"Zm9v"'))
@example(sound(serialize="1"))
@example(sound(strange="[" * 2_000))
def test_both_readers_agree(header: bytes) -> None:
    quick = outcome(lambda: command._decode_json(header))
    assert quick == outcome(lambda: command._decode_odd_json(header))


def test_a_sound_header_takes_the_quick_way() -> None:
    assert type(command._decode_json(sound())) is command._SoundHeader
