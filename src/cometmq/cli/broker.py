"""`cometmq broker`: a broker.

Mirrors: BrokerStartup.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from cometmq import log
from cometmq.broker.app import Broker, load_settings
from cometmq.cli import options
from cometmq.cli.progress import ProgressBar
from cometmq.cli.serve import serve


def run(arguments: list[str]) -> int:
    parser = options.parser("cometmq broker", "A broker: stores messages and serves them.")
    parser.add_argument("-n", "--namesrv", "--namesrvAddr", metavar="ADDRS", help="name servers: host:9876;host:9876")
    given = parser.parse_args(arguments)
    log.configure(given.verbose)
    return start(broker_values(given.config, given.namesrv))


def broker_values(config_path: str | None, namesrv: str | None) -> dict[str, str]:
    """Keys of the file; name servers from the flag, else the file, else NAMESRV_ADDR."""
    values = options.values_of(config_path)
    addresses = namesrv or values.get("namesrvAddr") or os.environ.get("NAMESRV_ADDR")
    if addresses:
        values["namesrvAddr"] = options.check_addresses(addresses)
    return values


def start(values: Mapping[str, str]) -> int:
    """Serve; says so in the line that upstream's scripts wait for."""
    bar = ProgressBar("replaying the log")
    broker = Broker(load_settings(values), progress=bar)
    options.warn_if_open(broker.settings.broker.bind_address, "broker")

    def announce() -> None:
        bar.close()
        promise = broker.promise[0].upper() + broker.promise[1:]
        print(boot_line(broker), told_line(broker), promise, sep="\n", flush=True)

    return serve(broker, announce)


def told_line(broker: Broker) -> str:
    """The address that clients must be able to reach, and where it is from."""
    return f"Clients are told {broker.address} ({broker.settings.advertised_how})"


def boot_line(broker: Broker) -> str:
    config = broker.settings.broker
    registered = f" and name server is {config.namesrv_addr}" if config.namesrv_addr is not None else ""
    return f"The broker[{config.broker_name}, {broker.address}] boot success. serializeType=JSON{registered}"
