"""consumerFilter.json goes from hand to hand: the original reads what we wrote, and we what it wrote."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.original.jars import original_jars
from tests.original.programs import SMALL_JVM, java_program

from cometmq.broker.config import BrokerConfig
from cometmq.broker.filters import Filters
from cometmq.clock import SystemClock
from cometmq.model.subscription import SubscriptionData
from cometmq.store.fs import OsFs
from cometmq.store.tables import TableFile

SOURCE = Path(__file__).with_name("java") / "FilterTable.java"
CONSUMERS = 64  # as the original's table expects when it has no broker around it


def filters(path: Path, consumers: int = CONSUMERS) -> Filters:
    config = BrokerConfig(expect_consumer_num_use_filter=consumers)
    return Filters(TableFile(OsFs(), str(path)), config, SystemClock())


def write(path: Path, consumers: int = CONSUMERS) -> None:
    ours = filters(path, consumers)
    ours.register("G1", [SubscriptionData("T1", "a > 5", sub_version=7, expression_type="SQL92")])
    ours.persist()


def read_in_java(*paths: Path) -> list[str]:
    """For each file what is known of the group, then the table that Java saves."""
    jvm = (*SMALL_JVM, f"-Duser.home={paths[0].parent}")
    command = [*java_program(SOURCE, original_jars(), jvm=jvm), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [line[2:] for line in done.stdout.splitlines() if line.startswith("> ")]


def test_java_reads_our_table_and_we_read_its(tmp_path: Path) -> None:
    path, other_bits = tmp_path / "consumerFilter.json", tmp_path / "other.json"
    write(path)
    write(other_bits, consumers=5)
    said, table, said_of_other, _ = read_in_java(path, other_bits)
    assert said == "a > 5 / 7 / true / (a > 5)"
    assert said_of_other == "unknown"  # the whole table is left aside
    path.write_text(table)
    again = filters(path)
    first, second = again.get("T1", "G1"), again.get("T2", "G2")
    assert first and second
    assert (first.expression, first.version, first.is_dead) == ("a > 5", 7, True)
    assert (second.expression, second.version, second.is_dead) == ("b IN ('x', 'y')", 8, True)
    saved = json.loads(table)["filterDataByTopic"]["T2"]["groupFilterData"]["G2"]
    assert saved["bloomFilterData"]["bitPos"] == second.bits
