"""The JSON dialect: bare whole-number keys, and strings that look like them."""

from __future__ import annotations

from typing import Any

import pytest

from cometmq.errors import ProtocolError
from cometmq.wire import fastjson


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{0:"a"}', {"0": "a"}),
        (b'{-1:"a", 2 : {3:4}}', {"-1": "a", "2": {"3": 4}}),
        (b'[{0:1},{1:2}]', [{"0": 1}, {"1": 2}]),
        (b'{"a":"{1:2}",3:4}', {"a": "{1:2}", "3": 4}),
        (b'{"a\\"":",5:",6:"\\\\"}', {'a"': ",5:", "6": "\\"}),
        (b'{"0":"quoted"}', {"0": "quoted"}),
    ],
)  # fmt: skip
def test_bare_keys_are_read(text: bytes, value: Any) -> None:
    assert fastjson.loads(text) == value
    assert fastjson.loads(memoryview(text)) == value


@pytest.mark.parametrize("text", [b"", b"{", b"{a:1}", b"{1.5:2}", b"{1:}", b"'a'", b"\xff", b'{1:"\xff"}', b"NaN"])
def test_not_json(text: bytes) -> None:
    with pytest.raises(ProtocolError, match="not JSON"):
        fastjson.loads(text)


def test_written_forms() -> None:
    value = {0: "a", "b": {"7": ',"8":'}}
    assert fastjson.dumps(value) == b'{"0":"a","b":{"7":",\\"8\\":"}}'
    assert fastjson.dumps(value, strict=False) == b'{0:"a","b":{7:",\\"8\\":"}}'


def test_a_value_that_is_a_number_in_quotes_stays() -> None:
    assert fastjson.dumps({"a": "1", "b": ["2", "3"]}, strict=False) == b'{"a":"1","b":["2","3"]}'


@pytest.mark.parametrize(
    ("value", "text"), [("a", "a"), (1, "1"), (True, "true"), ([1, 2], "[1,2]"), ({"x": 1}, '{"x":1}')]
)
def test_text_of(value: Any, text: str) -> None:
    assert fastjson.text_of(value) == text


@pytest.mark.parametrize(("value", "number"), [(None, 0), ("10", 10), (1.9, 1), (True, 1), (-5, -5)])
def test_int_of(value: Any, number: int) -> None:
    assert fastjson.int_of(value) == number


@pytest.mark.parametrize("value", ["x", [], {}, 2**31, "9" * 4000, "9" * 5000, float("inf")])
def test_not_an_int(value: Any) -> None:
    with pytest.raises(ProtocolError):
        fastjson.int_of(value)
