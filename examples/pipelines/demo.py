"""Orders and payments through a server, joined and archived by Spark, with a chart at the end: `make demo`.

Everything runs on this machine and is gone afterwards but the chart. What is here is what a user would do: start a
server, send messages, make a folder for a pipeline, run it, look at its tables.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet

from cometmq import Message, Producer
from cometmq.cli import main as cometmq
from cometmq.spark.pipelines.project import init_project, ready_file
from cometmq.testing.local_cluster import LocalCluster

ORDERS = 5_000
CHARTS = Path("demo-charts")
CHART = '''"""How long it took until orders were paid, for the chart."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, concat, lit

spark = SparkSession.active()


@dp.materialized_view
def paid_after_chart() -> DataFrame:
    waited = (col("right_time").cast("double") - col("left_time").cast("double")) * 10
    counted = spark.read.table("joined").groupBy(waited.cast("int").alias("place")).count()
    label = concat((col("place") / 10).cast("string"), lit(" s"))
    return counted.select("place", label.alias("label"), col("count").alias("value"))
'''


async def trade(namesrv: str, seed: int) -> int:
    """Send orders, and payments for most of them a moment later; returns how many were paid."""
    chance = random.Random(seed)
    async with Producer("shop", namesrv=namesrv) as shop:
        await shop.create_topic("orders", queues=4)
        await shop.create_topic("payments", queues=4)
        paid: list[list[Message]] = [[] for _ in range(20)]
        for round_number in range(20):
            orders = []
            for number in range(round_number * ORDERS // 20, (round_number + 1) * ORDERS // 20):
                body = json.dumps({"order": number, "euros": chance.randint(1, 500)}).encode()
                orders.append(Message("orders", body, tags="created", keys=[f"order-{number}"]))
                later = round_number + min(int(chance.expovariate(0.4)), 19)
                if later < 20:
                    paid[later].append(Message("payments", body, tags="paid", keys=[f"order-{number}"]))
            await shop.send_batch(orders)
            if paid[round_number]:
                await shop.send_batch(paid[round_number])
            await asyncio.sleep(0.1)
    return sum(map(len, paid))


def run_pipeline(project: Path, namesrv: str) -> int:
    """A folder with two ready-made pipelines and a chart of our own; returns the exit code of the run."""
    settings = {"namesrv": namesrv, "topic": "orders", "left": "orders", "right": "payments"}
    settings |= {"path": str(project / "archive"), "group": "shop-archive", "maxOffsetsPerTrigger": "200000"}
    init_project(str(project), "join", {f"cometmq.{key}": value for key, value in settings.items()})
    (project / "transformations" / "archive.py").write_text(ready_file("archive").read_text())
    (project / "transformations" / "paid_after.py").write_text(CHART)
    quick = ["--set", "spark.sql.catalogImplementation=in-memory", "--spark", "local[2]"]
    return cometmq(["pipeline", "run", str(project), *quick, "--charts", str(CHARTS)])


def sum_up(project: Path, paid: int) -> int:
    """Count what came out; returns 0 if nothing is missing."""
    state = project / "state"
    tables = (state / "tables" / "joined", project / "archive")
    joined, archived = (pyarrow.parquet.read_table(table).num_rows for table in tables)
    print(f"{archived:,} of {ORDERS:,} orders are archived; {joined:,} of {paid:,} payments found their order.")
    print(f"The chart is in {(CHARTS / 'paid_after_chart.svg').resolve()}")
    return 0 if (archived, joined) == (ORDERS, paid) else 1


async def show(folder: Path) -> int:
    async with LocalCluster() as cluster:
        print(f"A server is at {cluster.namesrv}; sending {ORDERS:,} orders and their payments …", flush=True)
        paid = await trade(cluster.namesrv, seed=7)
        code = await asyncio.to_thread(run_pipeline, folder / "shop", cluster.namesrv)
        return code or sum_up(folder / "shop", paid)


if __name__ == "__main__":
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="cometmq-demo-") as scratch:
        ended = asyncio.run(show(Path(scratch)))
    print(f"{time.monotonic() - began:.0f} s")
    sys.exit(ended)
