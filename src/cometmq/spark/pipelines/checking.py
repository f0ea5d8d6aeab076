"""What can be said of a pipeline's sources and sinks before anything runs: their options and, if asked, their topics.

Spark looks at the options of a source when a flow's rows are planned, and at those of a sink when the first batch is
written; a dry run comes to neither. Here both are looked at when they are defined, while the line is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cometmq.spark.archive_sink import ArchiveSink, folder_of
from cometmq.spark.cluster import cluster_of
from cometmq.spark.connecting import client_of, with_config
from cometmq.spark.options import CHOOSING, Choice, Words, choice_of
from cometmq.spark.sink_options import check_words
from cometmq.spark.source import RocketSource
from cometmq.spark.tables import table_of


def check_sink(form: str, options: Mapping[str, str], *, topics: bool) -> None:
    """Raise what is wrong with a sink; with `topics` a server is asked whether its topic exists."""
    if form == ArchiveSink.name():
        folder_of(options)
    elif form == RocketSource.name():
        words = Words(with_config(options))
        check_words(words, is_stream=True)
        topic = words.text("topic")
        if topics and topic is not None:
            cluster_of(client_of(words)).queues(Choice((topic,)))


def check_sources(relation: Any, *, topics: bool) -> None:
    """The same for every source of ours that a flow reads, as its plan for Spark Connect tells."""
    for read in _reads(relation):
        if read.data_source.format != RocketSource.name():
            continue
        options = with_config(read.data_source.options)
        words = Words(options)
        if "storePath" in words:
            continue  # a folder of the executors
        table = table_of(options)
        schema = table.spark_schema()
        _ = table.stream_reader(schema) if read.is_streaming else table.reader(schema)
        if topics and words.names(CHOOSING):
            cluster_of(client_of(words)).queues(choice_of(words))


def _reads(message: Any) -> Iterator[Any]:
    """All `Read` in a plan, wherever in it."""
    if message.DESCRIPTOR.full_name == "spark.connect.Read":
        yield message
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for part in value if field.is_repeated else (value,):
                yield from _reads(part)
