"""The commands that Apache RocketMQ's scripts call, with upstream's flags: `mqnamesrv` and `mqbroker`.

    -c FILE   settings        -n ADDRS   name servers
    -p        print every setting and end        -m   print the important ones and end

Mirrors: NamesrvStartup, BrokerStartup, ServerUtil.
"""

from __future__ import annotations

import argparse
import sys
from typing import Final

from cometmq import log
from cometmq.cli import guarded, options

IMPORTANT: Final = frozenset(
    {
        "namesrvAddr",
        "listenPort",
        "brokerIP1",
        "recoverConcurrently",
        "autoCreateTopicEnable",
        "autoCreateSubscriptionGroup",
        "msgTraceTopicName",
        "traceTopicEnable",
        "rejectTransactionMessage",
        "fetchNameSrvAddrByDnsLookup",
        "fetchNamesrvAddrByAddressServer",
        "transactionTimeOut",
        "transactionCheckMax",
        "transactionCheckInterval",
        "aclEnable",
    }
)


def mqnamesrv(argv: list[str] | None = None) -> int:
    """The entry point `mqnamesrv`."""
    return guarded("mqnamesrv", __name__, sys.argv[1:] if argv is None else argv, "run_namesrv")


def mqbroker(argv: list[str] | None = None) -> int:
    """The entry point `mqbroker`."""
    return guarded("mqbroker", __name__, sys.argv[1:] if argv is None else argv, "run_broker")


def run_namesrv(arguments: list[str]) -> int:
    from cometmq.cli import namesrv
    from cometmq.config import section
    from cometmq.namesrv.config import NamesrvConfig

    given = _parse("mqnamesrv", arguments)
    values = options.values_of(given.configFile)
    if given.configFile is not None:
        print(f"load config properties file OK, {given.configFile}", flush=True)
    if given.printConfigItem or given.printImportantConfig:
        return _print_items(given, section(NamesrvConfig, values))
    return namesrv.start(values, given.configFile)


def run_broker(arguments: list[str]) -> int:
    from cometmq.broker.app import load_settings
    from cometmq.cli import broker

    given = _parse("mqbroker", arguments)
    values = broker.broker_values(given.configFile, given.namesrvAddr)
    if given.printConfigItem or given.printImportantConfig:
        settings = load_settings(values)
        return _print_items(given, settings.broker, settings.store, settings.ha)
    return broker.start(values)


def _parse(program: str, arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=program, allow_abbrev=False)
    parser.add_argument("-c", "--configFile", metavar="FILE", help="config properties file")
    parser.add_argument("-n", "--namesrvAddr", metavar="ADDRS", help="name servers: '10.0.0.1:9876;10.0.0.2:9876'")
    parser.add_argument("-p", "--printConfigItem", action="store_true", help="print all config items")
    parser.add_argument("-m", "--printImportantConfig", action="store_true", help="print important config items")
    given = parser.parse_args(arguments)
    log.configure()
    return given


def _print_items(given: argparse.Namespace, *sections: object) -> int:
    for section in sections:
        for item in options.items(section):
            if given.printConfigItem or item.partition("=")[0] in IMPORTANT:
                print(item)
    return 0
