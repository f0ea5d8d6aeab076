"""Registrations and settings of the NameServer."""

from __future__ import annotations

from typing import Final

from .entry import NOTHING, Entry
from .values import variant

_OF_ONE_SERVER: Final = ("configStorePath", "kvConfigPath", "listenPort", "rocketmqHome")

ENTRIES: Final = (
    Entry(
        title="Settings of Java's machinery",
        kind="difference",
        why="GET_NAMESRV_CONFIG lists the settings that CometMQ has: those of thread pools, Netty buffers and the "
        "like are not among them.",
        where="body.*",
        codes=frozenset({318, 319}),
        when=lambda one: one.comet is NOTHING,
    ),
    Entry(
        title="Settings that would have no effect",
        kind="difference",
        why="UPDATE_NAMESRV_CONFIG refuses keys that CometMQ does not know or cannot change while it runs (code 16) "
        "and values that cannot be read (code 29). The original answers success and changes nothing.",
        where="code",
        codes=frozenset({318}),
        when=variant("unknown key|key of the Java machinery|wrong type key|not a line"),
    ),
    Entry(
        title="Folders and ports in settings",
        kind="mask",
        why="Each server has its own.",
        where="body.*",
        codes=frozenset({318, 319}),
        when=lambda one: one.where.removeprefix("body.") in _OF_ONE_SERVER,
    ),
    Entry(
        title="Brokers without a name, cluster or address",
        kind="difference",
        why="A registration that leaves one of these out is answered with success but has no effect. The original "
        "keeps a broker that cannot be reached, or a null that breaks its later listings.",
        where="*",
        codes=frozenset({103}),
        when=variant(r"missing broker(Name|Addr) / after|missing clusterName / after"),
    ),
    Entry(
        title="Topics registered without a name",
        kind="difference",
        why="A topic without `topicName` is known by its key in the table. The original loses it and those after it.",
        where="code",
        codes=frozenset({103}),
        when=variant(r"missing body\..*\.topicName / after"),
    ),
    Entry(
        title="Refused registrations leave nothing behind",
        kind="difference",
        why="An unknown broker that registers a single topic is refused by both; the original lists it in its cluster "
        "from then on.",
        where="body.json.*AddrTable.*",
        codes=frozenset({103}),
        when=variant(r"one topic only / after|missing body\..*\.\{topic\}(_2)? / after"),
    ),
)
