"""One run of a pipeline, from its files to the table at the end.

Definitions are read file by file, so that an error is told with its place. While flows run, their progress is heard
(`watching`), shown, and committed to the consumer groups that sources name, the last batch too. What the run did is
written to `last-run.json` in the pipeline's storage as it goes, where `cometmq pipeline status` finds it.
"""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import orjson

from cometmq.errors import ClientError, InvalidArgument
from cometmq.spark.pipelines.charts import SUFFIX, Table, draw_charts
from cometmq.spark.pipelines.display import Display
from cometmq.spark.pipelines.embedded import EmbeddedSpark, start
from cometmq.spark.pipelines.faults import (
    SourcePlace,
    is_lasting,
    place_in_sql,
    place_in_trace,
    place_of,
    place_of_flow,
    sentence_of,
    told,
)
from cometmq.spark.pipelines.flows import ENDED, Flows
from cometmq.spark.pipelines.project import Project, definition_files
from cometmq.spark.pipelines.watching import watch
from cometmq.spark.tracking import Tracker

LAST_RUN: Final = "last-run.json"
WRITTEN_EVERY_S: Final = 1.0


class Run:
    """A run, or with `dry` only the proof that it could be one."""

    def __init__(
        self, project: Project, where: str, display: Display, *, dry: bool = False, charts: Path | None = None
    ) -> None:
        self.project = project
        self._charts = charts or project.storage / "charts"
        self._where = where
        self._display = display
        self._dry = dry
        self._files = list(definition_files(project))
        self._places: dict[str, SourcePlace] = {}
        self._tracker = Tracker()
        self._lock = threading.Lock()  # progress is told by another thread
        self._writing = threading.Lock()
        self._written_s = 0.0
        self.flows = Flows()
        self.pictures: list[Path] = []
        self.began_s = time.time()

    def run(self, full_refresh: Iterable[str] = (), *, full_refresh_all: bool = False) -> Flows:
        """Do it; raises `ClientError` with the user's file and line."""
        self._check_syntax()
        self._display.say(f"starting Spark ({self._where}) …")
        try:
            spark = start(self._where, self.project.configuration, self.project.storage)
        except InvalidArgument:
            raise
        except Exception as fault:
            raise ClientError(f"Spark did not start ({self._where}): {sentence_of(str(fault))}") from None
        try:
            if spark.context is not None:
                watch(spark.context, self._hear_progress)
            graph = self._define(spark)
            self._follow(self._start(spark, graph, list(full_refresh), full_refresh_all))
            if not self._dry:
                self.pictures = self._drawn(spark.session)
        except KeyboardInterrupt:
            self.flows.stop()
            self._display.say("stopping Spark; the next run goes on from here …")
            raise
        finally:
            if self.flows.run_state not in ENDED:
                self.flows.run_state = "FAILED"
            with self._lock:
                self._display.close()
            self._write_down()
            spark.stop()
        return self.flows

    # Definitions

    def _check_syntax(self) -> None:
        """Before Spark is started, which takes a while."""
        import ast

        for file in self._files:
            if file.suffix == ".py":
                try:
                    ast.parse(file.read_text(encoding="utf-8"), str(file))
                except SyntaxError as fault:
                    raise ClientError(f"{file}:{fault.lineno}: {fault.msg}") from None
            elif file.suffix != ".sql":
                raise ClientError(f"{file}: definitions are Python (.py) or SQL (.sql) files")

    def _define(self, spark: EmbeddedSpark) -> str:
        from pyspark.pipelines.graph_element_registry import graph_element_registration_context
        from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph

        project = self.project
        own = {key: value for key, value in project.configuration.items() if not key.startswith("spark.")}
        graph = create_dataflow_graph(spark.session, project.catalog, project.database, own)
        registry = self._registry(spark, graph)
        with _inside(project.root), graph_element_registration_context(registry):
            for file in self._files:
                self._load(file, registry, spark.session, graph)
        return graph

    def _load(self, file: Path, registry: Any, session: Any, graph: str) -> None:
        if file.suffix == ".sql":
            try:
                registry.register_sql(file.read_text(encoding="utf-8"), file.relative_to(self.project.root))
            except Exception as fault:
                raise ClientError(f"{place_in_sql(fault, file)}: {sentence_of(str(fault))}") from None
            return
        from pyspark.pipelines.add_pipeline_analysis_context import add_pipeline_analysis_context
        from pyspark.pipelines.block_session_mutations import block_session_mutations

        spec = importlib.util.spec_from_file_location(file.stem, str(file))
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        module.__dict__["spark"] = session  # as Spark's own command does
        try:
            with (
                add_pipeline_analysis_context(spark=session, dataflow_graph_id=graph, flow_name=None),
                block_session_mutations(),
            ):
                spec.loader.exec_module(module)
        except Exception as fault:
            place = place_of(fault, self.project.root) or SourcePlace(str(file), 1)
            raise ClientError(f"{place}: {told(fault)}") from None

    def _registry(self, spark: EmbeddedSpark, graph: str) -> Any:
        from pyspark.pipelines.output import Sink
        from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry

        from cometmq.spark.pipelines.checking import check_sink, check_sources

        places = self._places
        asks = (
            self._dry and spark.context is not None
        )  # a remote Spark may reach servers that are not reached from here

        def remember(element: Any) -> None:
            where = getattr(element, "source_code_location", None)
            if where is not None and where.filename:
                places[str(element.name).rpartition(".")[2]] = SourcePlace(where.filename, where.line_number or 1)

        class Remembering(SparkConnectGraphElementRegistry):
            """Knows afterwards where everything was defined, and looks at options while the line is known."""

            def register_output(self, output: Any) -> None:
                remember(output)
                if isinstance(output, Sink):
                    check_sink(output.format, output.options, topics=asks)
                super().register_output(output)

            def register_flow(self, flow: Any) -> None:
                remember(flow)

                def checked() -> Any:
                    frame = flow.func()
                    check_sources(frame._plan.plan(spark.session.client), topics=asks)
                    return frame

                super().register_flow(replace(flow, func=checked))

        return Remembering(spark.session, graph)

    # Running

    def _start(self, spark: EmbeddedSpark, graph: str, full_refresh: list[str], refresh_all: bool) -> Iterator[Any]:
        from pyspark.pipelines.spark_connect_pipeline import start_run

        storage = (self.project.storage / "checkpoints").as_uri()
        return start_run(spark.session, graph, full_refresh, refresh_all, [], self._dry, storage)

    def _follow(self, events: Iterator[Mapping[str, Any]]) -> None:
        try:
            for result in events:
                event = result.get("pipeline_event_result")
                if event is not None:
                    with self._lock:
                        self.flows.hear_event(str(event.event.message))
                        self._display.renew(self.flows)
                    self._write_down()
                    if self.flows.end_vain(is_lasting):
                        break  # Spark would try the rest twice more
        except Exception as fault:
            raise ClientError(self._told(sentence_of(str(fault)))) from None
        if self.flows.failed:
            raise ClientError(self._told("the run failed"))
        if self._dry:
            self.flows.run_state = "VALID"

    def _drawn(self, session: Any) -> list[Path]:
        """Spark is asked for the tables, as it alone knows where they are: those of a Connect server are not here."""
        place = [part for part in (self.project.catalog, self.project.database) if part]
        names = [flow.name for flow in self.flows.flows.values() if flow.name.endswith(SUFFIX)]

        def table(name: str) -> Table:
            full = ".".join([*place, name])
            comment = session.catalog.getTable(full).description or ""
            return Table(comment, session.read.table(full).toArrow().to_pylist())

        try:
            tables = {name: table(name) for name in names}
            return draw_charts(tables, self._charts)
        except Exception as fault:
            raise ClientError(f"the charts were not drawn: {sentence_of(str(fault))}") from None

    def _told(self, otherwise: str) -> str:
        """Each flow that failed, with its place; those that only depend on one are not told."""
        lines = []
        for flow in self.flows.failed:
            place = place_in_trace(flow.fault, self.project.root)
            place = place or place_of_flow(flow.name, self._places, self._files)
            lines.append(f"{place or flow.name}: {sentence_of(flow.fault)}")
        return "\n".join(lines) or otherwise

    def _hear_progress(self, progress: dict[str, Any]) -> None:
        with self._lock:
            self.flows.hear_progress(progress)
            self._display.renew(self.flows)
        if time.time() > self._written_s + WRITTEN_EVERY_S:
            self._write_down()
        sources = [
            SimpleNamespace(endOffset=_json(one.get("endOffset")), latestOffset=_json(one.get("latestOffset")))
            for one in progress.get("sources") or []
        ]
        self._tracker.onQueryProgress(SimpleNamespace(progress=SimpleNamespace(sources=sources)))

    def _write_down(self) -> None:
        """Two threads do: that of the run, and the one that hears of batches."""
        with self._lock:
            flows = [asdict(flow) for flow in self.flows.flows.values()]
        with self._writing:
            self._written_s = time.time()
            run = {
                "pipeline": self.project.name,
                "state": self.flows.run_state,
                "began": self.began_s,
                "told": self._written_s,
                "pid": os.getpid(),
                "flows": flows,
            }
            self.project.storage.mkdir(parents=True, exist_ok=True)
            path = self.project.storage / LAST_RUN
            scratch = path.with_suffix(".new")
            scratch.write_bytes(orjson.dumps(run, option=orjson.OPT_INDENT_2))
            scratch.replace(path)


def _json(offset: object) -> str | None:
    return offset if isinstance(offset, str) or offset is None else orjson.dumps(offset).decode()


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
