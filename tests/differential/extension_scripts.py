"""What is asked that only CometMQ answers: the original knows none of these codes, whatever comes with them."""

from __future__ import annotations

from cometmq.wire.bodies.positions import Position, pack_positions

from .script import Ask, Script

NOTHING_THERE = pack_positions([Position(7, 1 << 40)])

SCRIPTS: tuple[Script, ...] = (
    Script("broker", Ask(30000)),
    Script(
        "broker",
        Ask(30001, {"producerGroup": "{group}_p", "commitOrRollback": "8", "mark": "mine"}, NOTHING_THERE),
        more={
            "no verdict": Ask(30001, {"producerGroup": "{group}_p", "commitOrRollback": "4"}, NOTHING_THERE),
            "cut": Ask(30001, {"producerGroup": "{group}_p", "commitOrRollback": "12"}, NOTHING_THERE[:-1]),
        },
    ),
)
