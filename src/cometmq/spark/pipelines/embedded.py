"""The Spark that runs a pipeline: one inside this process, or a Spark Connect server that is there already.

Declarative pipelines speak Spark Connect only. So a session of this process (`local[*]`, or a cluster's master URL)
gets the Connect server as a plugin, on a free port of this machine, and the pipeline is its client. The tables of the
pipeline, their catalog and what Java leaves behind stand in the pipeline's storage folder.
"""

from __future__ import annotations

import logging
import os
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cometmq.spark.java import provide_java


class EmbeddedSpark:
    """A Connect session, and the driver behind it if that is here."""

    def __init__(self, session: Any, context: Any | None) -> None:
        self.session = session
        self.context = context

    def stop(self) -> None:
        self.session.stop()
        if self.context is not None:
            self.context.stop()


def start(where: str, configuration: Mapping[str, str], storage: Path) -> EmbeddedSpark:
    """Start or reach a Spark: `where` is a master URL, or `sc://host` of a Spark Connect server."""
    _quieten()
    if where.startswith("sc://"):
        return EmbeddedSpark(_connected(where, configuration), None)
    _prepare(storage, is_local=where.startswith("local"))
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    conf = SparkConf().setMaster(where).setAll(list(_usual(storage).items()))
    conf.setAll([(key, value) for key, value in configuration.items() if key.startswith("spark.")])
    # A Connect server, so that its session is not taken for the pipeline's.
    conf.setAll([("spark.plugins", "org.apache.spark.sql.connect.SparkConnectPlugin")])
    context = SparkContext.getOrCreate(conf)
    SparkSession(context)
    service = getattr(context._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    port = getattr(service, "MODULE$").localPort()
    own = {
        key: value for key, value in configuration.items() if not key.startswith("spark.")
    }  # the driver has the rest
    return EmbeddedSpark(_connected(f"sc://localhost:{port}", own), context)


def _connected(url: str, configuration: Mapping[str, str]) -> Any:
    from pyspark.sql.connect.session import SparkSession

    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # functions as `col` mean Connect's from here on
    builder: Any = SparkSession.builder.remote(url).config("spark.sql.connect.serverStacktrace.enabled", "false")
    for key, value in configuration.items():
        builder = builder.config(key, value)
    return builder.create()


def _prepare(storage: Path, *, is_local: bool) -> None:
    storage.mkdir(parents=True, exist_ok=True)
    provide_java(storage)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_CONNECT_AUTHENTICATE_TOKEN", str(uuid.uuid4()))
    logging.getLogger().addFilter(_is_no_interrupt)
    if is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _quieten() -> None:
    """What fails is told by us; Spark's Python would log it before, in pages of JSON."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    """Who stops the command needs no traceback; py4j writes one to the root logger."""
    return not record.getMessage().startswith("KeyboardInterrupt")


def _usual(storage: Path) -> dict[str, str]:
    return {
        "spark.app.name": "cometmq pipeline",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "FATAL",  # what fails is told by us
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={storage}",
        "spark.sql.catalogImplementation": "hive",  # tables are known again in the next run
        "spark.sql.warehouse.dir": str(storage / "tables"),
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
        # Each flow starts a process for its source, which has ten seconds to say that it is there.
        "spark.sql.pipelines.execution.maxConcurrentFlows": str(os.cpu_count() or 2),
        "spark.sql.artifact.isolation.enabled": "true",
        "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
        "spark.connect.grpc.binding.port": "0",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
    }
