"""`cometmq standalone`: the way to try CometMQ, and to run it on one machine."""

from __future__ import annotations

import logging

from cometmq import __version__, log
from cometmq.cli import options
from cometmq.cli.serve import serve
from cometmq.standalone.app import Chosen, Standalone
from cometmq.store.config import SYNC_FLUSH

PROXY_PORT = 8081
CONSOLE_PORT = 8082


def run(arguments: list[str]) -> int:
    parser = options.parser(
        "cometmq standalone",
        "A NameServer and a broker in one process. Flags win over the file.",
    )
    parser.add_argument("--data", metavar="DIR", help="where everything is stored (./data)")
    parser.add_argument("--host", help="address to listen on (127.0.0.1); 0.0.0.0 opens it to others")
    parser.add_argument("--namesrv-port", type=int, default=9876, metavar="PORT", help="(9876); 0 takes a free one")
    parser.add_argument(
        "--broker-port",
        type=int,
        metavar="PORT",
        help="(10911); port - 2 and + 1 are taken too; 0 takes free ones",
    )
    parser.add_argument("--proxy-port", type=int, default=PROXY_PORT, metavar="PORT", help="(8081); not served yet")
    parser.add_argument("--console-port", type=int, default=CONSOLE_PORT, metavar="PORT", help="(8082); not served yet")
    given = parser.parse_args(arguments)
    log.configure(given.verbose)
    if (given.proxy_port, given.console_port) != (PROXY_PORT, CONSOLE_PORT):
        logging.getLogger("cometmq").warning("this version has no proxy and no console: their ports have no effect")
    chosen = Chosen(given.data, given.host, given.namesrv_port, given.broker_port)
    server = Standalone(chosen, options.values_of(given.config))
    options.warn_if_open(server.broker.settings.broker.bind_address, "server")
    return serve(server, lambda: print(banner(server), flush=True))


def banner(server: Standalone) -> str:
    """What listens where, what is promised, where the data is, what to try next."""
    settings = server.broker.settings
    namesrv = server.advertised_namesrv
    told = f"clients are told {server.broker.address} ({settings.advertised_how})"
    broker = f"{settings.broker.broker_name} of {settings.broker.broker_cluster_name}; {told}"
    return "\n".join(
        [
            f"CometMQ {__version__} serves. Ctrl-C stops it.",
            f"  NameServer  {server.namesrv.address}",
            f"  broker      {broker}",
            f"  durability  {durability(settings.store.flush_disk_type)}",
            f"  data        {server.data}",
            f"  try next    any Apache RocketMQ client with namesrvAddr={namesrv}, or mqadmin clusterList -n {namesrv}",
        ]
    )


def durability(flush_disk_type: str) -> str:
    if flush_disk_type == SYNC_FLUSH:
        return "SYNC_FLUSH: a message is on the disk before it is acknowledged"
    return "ASYNC_FLUSH: a message is acknowledged from memory; a power cut may lose the last half second"
