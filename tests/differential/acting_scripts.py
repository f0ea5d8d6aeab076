"""What brokers are asked about their group: who is first in it, and where its master serves slaves."""

from __future__ import annotations

from .script import Ask, Script

NOTIFY = Ask(
    905,
    {
        "minBrokerId": "1",
        "brokerName": "broker-a",
        "minBrokerAddr": "10.0.0.2:10911",
        "offlineBrokerAddr": "10.0.0.1:10911",
        "haBrokerAddr": "10.0.0.1:10912",
    },
)
EXCHANGE = Ask(906)
ANNOUNCE = Ask(906, {"masterHaAddress": "10.0.0.1:10912", "masterFlushOffset": "0", "masterAddress": "10.0.0.1:10911"})

SCRIPTS: tuple[Script, ...] = (
    Script("broker", NOTIFY, more={"the master": NOTIFY.but(minBrokerId="0"), "nothing": Ask(905)}),
    Script("broker", EXCHANGE, more={"of a master that is told of another": ANNOUNCE}),
)
