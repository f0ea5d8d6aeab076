"""Renders docs/reference/config.md from the settings' own declarations: `python -m tests.docs.config_page`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from cometmq.broker.config import BrokerConfig
from cometmq.broker.ha.config import HaConfig
from cometmq.config import java_key
from cometmq.namesrv.config import NamesrvConfig
from cometmq.store.config import StoreConfig

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "config.md"

INTRODUCTION = """\
# Settings

Files are those of Apache RocketMQ: `key=value` lines, with its keys. `cometmq broker -c broker.conf` reads the
broker's and the store's keys from one file, `cometmq namesrv -c namesrv.conf` the name server's. A key that is not
known is accepted with a warning that names the nearest known one, if one is near.

Keys that size Java's threads, or limit the time in their queues (`sendMessageThreadPoolNums`,
`waitTimeMillsInSendQueue`), have no effect, and a warning says so: a request is served in the moment in which it is
read, and until then it waits in its socket, where TCP holds back its sender. An overloaded broker does not grow: sends
beyond `sendThreadPoolQueueCapacity` that wait for the disk are turned away, and so are, unless
`brokerFastFailureEnable=false`, those that came while a write took longer than `osPageCacheBusyTimeOutMills` (code 2,
SYSTEM_BUSY, as upstream: producers try another broker).

Defaults are those of Apache RocketMQ 5.5.0, with three exceptions: `flushDiskType` is `SYNC_FLUSH`, so an
acknowledged message is on disk; `bindAddress` is loopback; `brokerIP1`, where it is not set, is the address the
broker is bound to or, bound to all addresses, the one this machine uses to reach others.

`registerNameServerPeriod` counts as a minute where it is longer, as in the original; shorter ones than the original's
ten seconds are taken as they are.

This page is rendered from the declarations in the code; a test holds the two together.
"""


def render() -> str:
    parts = [INTRODUCTION]
    for title, section in (
        ("Broker", BrokerConfig),
        ("Store", StoreConfig),
        ("Replication", HaConfig),
        ("Name server", NamesrvConfig),
    ):
        parts.append(f"\n## {title}\n\n| key | default |\n|---|---|\n")
        parts += [f"| `{_key(item)}` | {_default(item)} |\n" for item in dataclasses.fields(section)]
    return "".join(parts)


def _key(item: dataclasses.Field[object]) -> str:
    return str(item.metadata.get("key", java_key(item.name)))


def _default(item: dataclasses.Field[object]) -> str:
    if item.default is dataclasses.MISSING or item.default is None or item.default == "":
        return "–"
    if isinstance(item.default, bool):
        return f"`{str(item.default).lower()}`"
    if isinstance(item.default, str) and str(Path.home()) in item.default:
        return f"`{item.default.replace(str(Path.home()), '~')}`"
    return f"`{item.default}`"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
