"""The folder of a pipeline: a specification as Spark wants it, and files that define tables and flows.

    NAME/spark-pipeline.yaml        name, storage, libraries, configuration
    NAME/transformations/           *.py and *.sql
    NAME/state/                     checkpoints, tables, the catalog, what the last run did

`storage` may be relative in our folders, to the specification; Spark itself wants a URL, which it is made into. The
ready-made pipelines (`cometmq.spark.ready`) are single files with the settings that they read at their top.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any, Final

from cometmq.errors import InvalidArgument

SPEC_NAMES: Final = ("spark-pipeline.yaml", "spark-pipeline.yml")
STATE: Final = "state"
READY: Final = {
    "archive": "a topic to Parquet files by date; topic and archive as one table",
    "counts": "messages per minute, topic and tag, into a topic",
    "typed": "JSON bodies to a typed table, and those that do not fit to a dead-letter topic",
    "triage": "what is in a group's dead-letter queue, and chosen messages sent again",
    "join": "two topics joined by key within a window of time",
    "latency": "a report on how long messages took, from their traces",
}
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}\Z")
_SETTING: Final = re.compile(r"^# (cometmq\.[A-Za-z]+) =[ ]?([^\n]*)$", re.MULTILINE)

_SPEC: Final = """# {about}
# Run it with: cometmq pipeline run {name}
name: {name}
storage: state
libraries:
  - glob:
      include: transformations/**
configuration:
{settings}
"""

_FIRST: Final = '''"""The first table of the pipeline: messages of a topic as they come.

Every function that is marked with `@dp.table` is a table; what it returns is read on from where the last run stopped.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

spark = SparkSession.active()


@dp.table(comment="Every message of the topic, its body as text.")
def messages() -> DataFrame:
    return (
        spark.readStream.format("rocketmq")
        .option("namesrvAddr", spark.conf.get("cometmq.namesrv"))
        .option("subscribe", spark.conf.get("cometmq.topic"))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 200_000)
        .load()
        .select("topic", "queue", "offset", "tags", "keys", "store_time", col("body").cast("string").alias("text"))
    )
'''
_SECOND: Final = """-- A view over the table that messages.py defines; computed anew in every run.
CREATE MATERIALIZED VIEW messages_by_tag AS
SELECT tags, count(*) AS messages, min(store_time) AS first, max(store_time) AS last
FROM messages
GROUP BY tags
"""


@dataclass(frozen=True, slots=True)
class Project:
    """A pipeline: where its specification is, where it keeps its state, and what is set."""

    name: str
    spec_path: Path
    storage: Path
    configuration: Mapping[str, str]
    libraries: tuple[str, ...]
    catalog: str | None = None
    database: str | None = None

    @property
    def root(self) -> Path:
        return self.spec_path.parent


def find_project(name: str, settings: Mapping[str, str], state: str | None = None) -> Project:
    """The pipeline in the folder `name` (or the specification of that path), else the ready-made one of that name."""
    path = Path(name)
    if path.is_dir():
        found = [path / spec for spec in SPEC_NAMES if (path / spec).is_file()]
        if len(found) != 1:
            raise InvalidArgument(f"{path} should hold one {SPEC_NAMES[0]}; cometmq pipeline init makes such a folder")
        return _read(found[0], settings, state)
    if path.is_file():
        return _read(path, settings, state)
    if name in READY:
        return _ready(name, settings, state)
    folders = [str(spec.parent) for spec_name in SPEC_NAMES for spec in path.parent.glob(f"*/{spec_name}")]
    near = get_close_matches(name, [*READY, *folders], 1)
    hint = f"did you mean {near[0]}?" if near else f"ready-made are {', '.join(READY)}"
    raise InvalidArgument(f"there is no folder {name}, and no ready-made pipeline of that name: {hint}")


def _read(spec_path: Path, settings: Mapping[str, str], state: str | None) -> Project:
    import yaml  # type: ignore[import-untyped]

    try:
        spec: Any = yaml.safe_load(spec_path.read_text(encoding="utf-8"))
    except yaml.YAMLError as fault:
        mark = getattr(fault, "problem_mark", None)
        at = f":{mark.line + 1}" if mark is not None else ""
        raise InvalidArgument(f"{spec_path}{at}: no YAML: {getattr(fault, 'problem', fault)}") from None
    if not isinstance(spec, dict):
        raise InvalidArgument(f"{spec_path}: fields as `name: …` are expected")
    known = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
    for field in spec:
        if field not in known:
            near = get_close_matches(str(field), known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise InvalidArgument(f"{spec_path}:{_line_of(spec_path, str(field))}: no field {field!r}: {hint}")
    configuration = spec.get("configuration") or {}
    if not isinstance(configuration, dict):
        raise InvalidArgument(f"{spec_path}:{_line_of(spec_path, 'configuration')}: `key: value` lines are expected")
    try:
        libraries = tuple(str(entry["glob"]["include"]) for entry in spec.get("libraries") or [])
    except (TypeError, KeyError):
        line = _line_of(spec_path, "libraries")
        raise InvalidArgument(f"{spec_path}:{line}: libraries are given as `- glob:` with `include: …` in it") from None
    if not libraries:
        raise InvalidArgument(f"{spec_path}: libraries is missing: which files define the pipeline?")
    told = str(state or spec.get("storage") or STATE)
    storage = Path(told.removeprefix("file://")) if "://" not in told or told.startswith("file:") else None
    if storage is None:
        raise InvalidArgument(
            f"{spec_path}: the storage {told} is not on this machine; a folder or file:// is expected"
        )
    return Project(
        name=str(spec.get("name") or spec_path.parent.name),
        spec_path=spec_path.resolve(),
        storage=(Path.cwd() if state else spec_path.parent.resolve()) / storage,
        configuration={str(key): _text(value) for key, value in configuration.items()} | dict(settings),
        libraries=libraries,
        catalog=spec.get("catalog"),
        database=spec.get("database", spec.get("schema")),
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _line_of(path: Path, field: str) -> int:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith(f"{field}:"):
            return number
    return 1


# Ready-made ones


def ready_file(name: str) -> Path:
    """Where a ready-made pipeline is installed."""
    return Path(str(resources.files("cometmq.spark.ready") / f"{name}.py"))


def ready_settings(name: str) -> dict[str, str]:
    """What a ready-made pipeline can be told; "" is what has to be given."""
    text = ready_file(name).read_text(encoding="utf-8")
    return {key: value.strip() for key, value in _SETTING.findall(text)}


def _ready(name: str, settings: Mapping[str, str], state: str | None) -> Project:
    known = ready_settings(name)
    check_settings(name, known, settings)
    file = ready_file(name)
    return Project(
        name=name,
        spec_path=file.resolve(),
        storage=Path(state or f"{name}-{STATE}").resolve(),
        configuration=known | dict(settings),
        libraries=(file.name,),
    )


def check_settings(name: str, known: Mapping[str, str], given: Mapping[str, str]) -> None:
    """Every setting is known, and what has no usual value is given."""
    names = [key.removeprefix("cometmq.") for key in known]
    for key in given:
        if key.startswith("cometmq.") and key not in known:
            wrong = key.removeprefix("cometmq.")
            near = get_close_matches(wrong, names, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
            raise InvalidArgument(f"the pipeline {name} has no setting {wrong}: {hint}")
    missing = [key.removeprefix("cometmq.") for key, value in known.items() if not value and not given.get(key)]
    if missing:
        wanted = " ".join([f"--set {key}=…" for key in missing])
        raise InvalidArgument(f"the pipeline {name} needs {', '.join(missing)}: cometmq pipeline run {name} {wanted}")


def init_project(name: str, like: str | None, settings: Mapping[str, str]) -> list[Path]:
    """Make a folder with a first pipeline in it, or with a ready-made one to change; returns its files."""
    root = Path(name)
    if _NAME.match(root.name) is None:
        raise InvalidArgument(
            f"{root.name!r} is no name for a pipeline: letters, digits, - and _, beginning with a letter"
        )
    if root.exists() and any(root.iterdir()):
        raise InvalidArgument(f"{root} is there already and not empty: choose another name")
    folder = root / "transformations"
    folder.mkdir(parents=True)
    values = {"cometmq.namesrv": "127.0.0.1:9876", "cometmq.topic": "orders"}
    files = {"messages.py": _FIRST, "messages_by_tag.sql": _SECOND}
    about = "A pipeline of Spark over topics of CometMQ or Apache RocketMQ."
    if like is not None:
        if like not in READY:
            raise InvalidArgument(f"there is no ready-made pipeline {like}: {', '.join(READY)} are")
        values = ready_settings(like)
        files = {f"{like}.py": ready_file(like).read_text(encoding="utf-8")}
        about = f"{READY[like][0].upper()}{READY[like][1:]}."
    lines = "\n".join([f'  {key}: "{value}"' for key, value in (values | dict(settings)).items()])
    spec = root / SPEC_NAMES[0]
    spec.write_text(_SPEC.format(name=root.name, about=about, settings=lines), encoding="utf-8")
    (root / ".gitignore").write_text(f"{STATE}/\n", encoding="utf-8")
    written = [spec]
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8")
        written.append(folder / file)
    return written


def definition_files(project: Project) -> Iterable[Path]:
    """The files that define the pipeline."""
    for pattern in project.libraries:
        found = [
            path
            for path in sorted(project.root.glob(pattern + "/*" if pattern.endswith("/**") else pattern))
            if path.is_file() and "__pycache__" not in path.parts
        ]
        if not found:
            raise InvalidArgument(f"{project.spec_path}: no file matches {pattern}")
        yield from found
