"""`cometmq standalone`: the way to try CometMQ, and to run it on one machine.

Asked for several masters, for slaves or for a deployment, it starts a process for each; else all is in one.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from cometmq import __version__, log
from cometmq.broker.ports import FAST_PORT_SHIFT
from cometmq.cli import options
from cometmq.cli.serve import serve
from cometmq.errors import ConfigError
from cometmq.standalone import deployment
from cometmq.standalone.app import Chosen, Standalone
from cometmq.standalone.cluster import Cluster

PROXY_PORT = 8081
CONSOLE_PORT = 8082


def run(arguments: list[str]) -> int:
    parser = options.parser(
        "cometmq standalone",
        "A NameServer and a broker in one process, or a cluster of processes. Flags win over the file.",
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
    cluster = parser.add_argument_group("a cluster of processes on this machine, to try it out")
    cluster.add_argument("--masters", type=int, metavar="N", help="brokers that take messages")
    cluster.add_argument("--slaves", type=int, metavar="N", help="copies that each of them has")
    cluster.add_argument("--namesrvs", type=int, metavar="N", help="NameServers")
    cluster.add_argument("--deployment", metavar="DIR", help="or a process for each namesrv*.conf and broker*.conf")
    given = parser.parse_args(arguments)
    log.configure(given.verbose)
    if (given.proxy_port, given.console_port) != (PROXY_PORT, CONSOLE_PORT):
        logging.getLogger("cometmq").warning("this version has no proxy and no console: their ports have no effect")
    if given.deployment is not None or (given.masters, given.slaves, given.namesrvs) != (None, None, None):
        return run_cluster(given)
    chosen = Chosen(given.data, given.host, given.namesrv_port, given.broker_port)
    server = Standalone(chosen, options.values_of(given.config))
    options.warn_if_open(server.broker.settings.broker.bind_address, "server")
    code = serve(server, lambda: print(banner(server), flush=True))
    print(f"Stopped. {stopped(server)}", flush=True)
    return code


def run_cluster(given: argparse.Namespace) -> int:
    data = Path(given.data or "data").absolute()
    if given.deployment is not None:
        if (given.masters, given.slaves, given.namesrvs, given.config) != (None, None, None, None):
            raise ConfigError(
                "--deployment says all by itself: --masters, --slaves, --namesrvs and -c do not go with it"
            )
        members = deployment.read(Path(given.deployment))
    else:
        shape = deployment.Shape(
            masters=1 if given.masters is None else given.masters,
            slaves=given.slaves or 0,
            namesrvs=1 if given.namesrvs is None else given.namesrvs,
            host=given.host,
            namesrv_port=given.namesrv_port,
            broker_port=given.broker_port,
        )
        members = deployment.write(data, shape, options.values_of(given.config))
    if given.host is not None:
        options.warn_if_open(given.host, "cluster")
    cluster = Cluster(members, data, verbosity=given.verbose)
    code = serve(cluster, lambda: print(cluster.banner(), flush=True), cluster.all_gone)
    if code == 0:
        print(f"Stopped. All that was acknowledged is in {data}", flush=True)
    return code


def stopped(server: Standalone) -> str:
    """Where all is, unless something is known to be wrong with it."""
    fault = server.broker.fault_at_stop
    return (
        f"All that was acknowledged is in {server.data}"
        if fault is None
        else f"At the end no messages were taken: {fault}"
    )


def banner(server: Standalone) -> str:
    """What listens where, what is promised, where the data is, what to try next."""
    broker, settings = server.broker, server.broker.settings
    name = f"{settings.broker.broker_name} of {settings.broker.broker_cluster_name}"
    namesrv = server.advertised_namesrv
    tour = f"{options.own_command()} tour -n {namesrv}"
    host, _, _ = server.namesrv.address.rpartition(":")
    ports = f"{broker.port + FAST_PORT_SHIFT} (fast) and {broker.ha_address.rpartition(':')[2]} (slaves)"
    return "\n".join(
        [
            f"CometMQ {__version__} serves. Ctrl-C stops it.",
            f"  NameServer  {server.namesrv.address}",
            f"  broker      {host}:{broker.port}, {ports}; {name}",
            f"  clients     are told {broker.address} ({settings.advertised_how})",
            f"  durability  {broker.promise}",
            f"  data        {server.data}",
            f"  try next    {tour}, or any Apache RocketMQ client with namesrvAddr={namesrv}",
        ]
    )
