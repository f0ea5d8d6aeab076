"""Java's string hash: both ways of computing it give what the definition gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cometmq.model.java_hash import FOLDED_COUNT_MAX, string_hash, unsigned_hash, unsigned_hashes

texts = st.text(st.characters(max_codepoint=127), max_size=70) | st.text(max_size=70)


def by_definition(text: str, start: int = 0) -> int:
    data = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        start = (start * 31 + int.from_bytes(data[at : at + 2], "big")) % 2**32
    return start


@given(texts, st.integers(0, 2**32 - 1))
def test_the_definition(text: str, prefix_hash: int) -> None:
    assert unsigned_hash(text, prefix_hash) == by_definition(text, prefix_hash)


@given(texts, texts)
def test_a_prefix_may_be_hashed_before(head: str, tail: str) -> None:
    assert unsigned_hash(tail, unsigned_hash(head)) == unsigned_hash(head + tail)


@given(texts)
def test_signed(text: str) -> None:
    assert -(2**31) <= string_hash(text) < 2**31
    assert string_hash(text) % 2**32 == by_definition(text)


@given(st.lists(st.text(st.characters(max_codepoint=127), min_size=32, max_size=32), max_size=FOLDED_COUNT_MAX))
def test_many_at_once(many: list[str]) -> None:
    assert unsigned_hashes(many) == [by_definition(text) for text in many]


def test_lanes_do_not_overflow() -> None:
    for length in range(70):
        text = "\x7f" * length
        assert unsigned_hash(text, 2**32 - 1) == by_definition(text, 2**32 - 1)
    assert unsigned_hashes(["\x7f" * 32] * FOLDED_COUNT_MAX) == [by_definition("\x7f" * 32)] * FOLDED_COUNT_MAX
