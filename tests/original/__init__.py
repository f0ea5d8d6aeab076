"""Apache RocketMQ 5.5.0 beside CometMQ: both as processes on loopback, behind one interface.

    tools.py    what a test needs from the machine (java, mvn, go), and what happens where it is missing
    cache.py    things that are made once and kept outside the tree (jars, compiled clients)
    jars.py     the original's jars, by their Maven coordinates in pom.xml
    ports.py    free ports, also the three in a row that a broker takes
    process.py  a server process: start, wait for its boot line, stop, kill, show its log when it fails
    class_archive.py, training.py  what lets JVMs start quickly
    java.py     JavaNamesrv and JavaBroker
    programs.py small Java programs, compiled once
    proxy.py    JavaProxy, for clients that speak gRPC
    comet.py    CometNamesrv and CometBroker
    registration.py  the wait until name servers know a broker
    cluster.py  Cluster("java" | "comet"): name servers and a broker in one `with`

Used by the interop, differential and golden tests and by the benchmarks.
"""

from __future__ import annotations

from .cluster import Cluster
from .comet import CometBroker, CometNamesrv
from .java import COMPACT_JVM, JavaBroker, JavaNamesrv, compact_jvm
from .ports import free_broker_port, free_port
from .process import BrokerProcess, Child, ServerFailed, ServerProcess
from .tools import require

__all__ = [
    "COMPACT_JVM",
    "BrokerProcess",
    "Child",
    "Cluster",
    "CometBroker",
    "CometNamesrv",
    "JavaBroker",
    "JavaNamesrv",
    "ServerFailed",
    "ServerProcess",
    "compact_jvm",
    "free_broker_port",
    "free_port",
    "require",
]
