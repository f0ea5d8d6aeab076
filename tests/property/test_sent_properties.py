"""Properties are read by their shape or pair by pair: both say the same of every text, met before or not."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from cometmq.broker.sent_properties import SentProperties, waits
from cometmq.model.properties import parse

OWN = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}
SPECIAL = {"DELAY", "TIMER_DELAY_MS"}

names = st.sampled_from(["UNIQ_KEY", "UNIQ_KEY", "TAGS", "KEYS", "WAIT", "DELAY", "POP_CK", "CLUSTER", "TRAN_MSG", "A"])
values = st.sampled_from(["1", "true", "False", "a b", "x\x01y", "UNIQ_KEY", "", "é"]) | st.text(max_size=3)
pieces = st.one_of(
    st.tuples(names, values).map("\x01".join),
    st.sampled_from(["", "\x01", "UNIQ_KEY", "XUNIQ_KEY\x01v", "XKEYS\x01v", "KEYS", "A\x01UNIQ_KEY\x01v"]),
)
texts = st.tuples(st.lists(pieces, max_size=5).map("\x02".join), st.sampled_from(["\x02", "\x02", ""])).map("".join)


@settings(deadline=None)
@given(st.lists(texts, max_size=8))
@example(["UNIQ_KEY\x01a\x02TAGS\x01t\x02", "TAGS\x01t\x02UNIQ_KEY\x01b\x02", "UNIQ_KEY\x01\x02TAGS\x01t\x02"])
@example(["UNIQ_KEY\x01a\x02", "UNIQ_KEY\x01a\x02UNIQ_KEY\x01b\x02", "UNIQ_KEY\x01a"])
@example(["KEYS\x01k\x02UNIQ_KEY\x01a\x02A\x01b\x02", "UNIQ_KEY\x01a\x02KEYS\x01l\x02A\x01b\x02"])
@example(["UNIQ_KEY\x01a\x02KEYS\x01k\x02", "UNIQ_KEY\x01a\x02KEYS\x01\x02", "UNIQ_KEY\x01a\x02KEYS\x01l"])
@example(
    ["UNIQ_KEY\x01a\x02KEYS\x01k\x02", "UNIQ_KEY\x01a\x02KEYS\x01k\x02KEYS\x01l\x02", "UNIQ_KEY\x01a\x02XKEYS\x01k\x02"]
)
def test_both_ways_agree(many: list[str]) -> None:
    sent = SentProperties(OWN, SPECIAL, lambda: "made")
    for text in many + many:
        found = parse(text)
        words = found.get("TAGS"), found.get("KEYS"), found.get("UNIQ_KEY")
        assert sent.of_batch([(0, b"", text.encode())]) == [(0, b"", text.encode(), *words)]
        read = sent.read(text)
        if read is None or not read[2].plain:
            continue
        uniq_key, keys, shape = read
        stored, found = sent.complete(text)
        assert text + sent.own_text == stored
        assert (uniq_key, shape.tags, keys, shape.waits) == (
            found["UNIQ_KEY"], found.get("TAGS"), found.get("KEYS"), waits(found),
        )  # fmt: skip
        assert SPECIAL.isdisjoint(found) and not {"TRAN_MSG", "POP_CK"} & parse(text).keys()
