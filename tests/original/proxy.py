"""Apache RocketMQ 5.5.0's gRPC proxy as a process, before brokers of either kind, for clients that speak gRPC alone.

Mirrors: the upstream `mqproxy` script in cluster mode.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from .cache import once
from .jars import MODULE_FLAGS, VERSION, class_path, copy_dependencies
from .java import COMPACT_JVM
from .ports import free_port
from .process import HOST, ServerProcess
from .tools import require

POM = Path(__file__).with_name("proxy-pom.xml")


def proxy_jars() -> Path:
    """The folder with the proxy's jars; downloads them where they are absent."""
    require("java")

    def download(folder: Path) -> None:
        require("mvn")
        copy_dependencies(POM, folder)

    return once(f"rocketmq-proxy-{VERSION}", f"Downloading the proxy of Apache RocketMQ {VERSION}", download)


class JavaProxy(ServerProcess):
    """`with JavaProxy(folder, namesrv=[namesrv.addr]) as proxy:` serves gRPC at `proxy.addr`."""

    role = "proxy"
    boot_mark = "rocketmq-proxy startup successfully"

    def __init__(self, directory: Path, namesrv: Sequence[str], jvm: Sequence[str] = COMPACT_JVM) -> None:
        super().__init__(directory, free_port())
        self.jvm = jvm
        self.conf = self.dir / "rmq-proxy.json"
        settings = {
            "proxyMode": "CLUSTER",
            "rocketMQClusterName": "DefaultCluster",
            "namesrvAddr": ";".join(namesrv),
            "grpcServerPort": self.port,
            "remotingListenPort": free_port(),
            "localServeAddr": HOST,
        }
        self.conf.write_text(json.dumps(settings, indent=2))

    def command(self) -> list[str]:
        return ["java", *self.jvm, *MODULE_FLAGS, f"-Duser.home={self.dir}", "-cp", class_path(proxy_jars()),
                "org.apache.rocketmq.proxy.ProxyStartup", "-pc", str(self.conf)]  # fmt: skip

    def environment(self) -> dict[str, str]:
        (self.dir / "conf").mkdir(parents=True, exist_ok=True)
        return {**os.environ, "ROCKETMQ_HOME": str(self.dir), "RMQ_PROXY_HOME": str(self.dir)}
