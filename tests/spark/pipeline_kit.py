"""`cometmq pipeline` as a process, and a Connect server in the session of all tests, on which it costs seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from tests.spark.sessions import QUICK_JVM


def serve_connect(spark: SparkSession) -> str:
    """Have the session's Spark answer Connect clients too, for as long as it lives; returns the URL."""
    jvm, context = spark._jvm, spark._jsc.sc()  # type: ignore[attr-defined]
    settings = context.conf()  # the context's own, not a copy
    settings.set("spark.connect.grpc.binding.port", "0")
    settings.set("spark.connect.grpc.binding.address", "127.0.0.1")
    # A flow's source is a process that must be there within ten seconds: on a busy machine one after the other.
    settings.set("spark.sql.pipelines.execution.maxConcurrentFlows", "1")
    service = getattr(getattr(jvm, "org.apache.spark.sql.connect.service.SparkConnectService$"), "MODULE$")
    service.start(context)
    return f"sc://127.0.0.1:{service.localPort()}"


def pipeline(where: str, *arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """In a process of its own: Spark's Connect mode is for a whole process. `where` is what `--spark` would say."""
    return subprocess.run(
        [sys.executable, "-m", "cometmq.cli", "pipeline", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
        cwd=folder,
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "COMETMQ_SPARK": where, "JDK_JAVA_OPTIONS": QUICK_JVM},
    )
