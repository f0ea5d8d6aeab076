"""What Spark of the tests is set to: it lives for seconds, on little data, and is started often."""

from __future__ import annotations

from typing import Final

QUICK_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # compiled soon is better than compiled well
SHORT_LIVED: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK_JVM,
    "spark.executor.extraJavaOptions": QUICK_JVM,
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
}
