"""`track(spark)`: commits the last batch of a stream too, which Spark tells its sources about too late or never.

A source hears that a batch is done when the next one begins, so a stream that is idle, or ended after
Trigger.AvailableNow, seems to lag by one batch. A listener hears of it at once. Which group and cluster is meant it
knows from what the source reports as its latest offset (`$group`), which has no secrets in it: those of a cluster that
wants them must stand in the file of the variable COMETMQ_CLIENT_CONFIG.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.sql.streaming.listener import StreamingQueryListener

from cometmq.errors import CometError
from cometmq.spark.cluster import Cluster, patiently
from cometmq.spark.connecting import usual_client
from cometmq.spark.offsets import GROUP, Offsets, StreamOffset

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("cometmq.spark")

RETRY_MS = 3_000


class Tracker(StreamingQueryListener):
    """Hears of every batch that is done, of all queries of the session."""

    def __init__(self) -> None:
        self._clusters: dict[str, Cluster] = {}
        self._committed: dict[tuple[str, str], Offsets] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        for source in event.progress.sources:
            try:
                self._take(source.endOffset, source.latestOffset)
            except (CometError, ValueError) as fault:  # the source itself commits again with the next batch
                log.warning("the progress of a stream was not committed: %s", fault)

    def _take(self, end: str | None, latest: str | None) -> None:
        told = _object(latest).get(GROUP)
        if not isinstance(told, dict) or not end:
            return
        namesrv, group = str(told["namesrvAddr"]), str(told["consumerGroup"])
        done = StreamOffset.read(_object(end)).ends
        before = self._committed.setdefault((namesrv, group), {})
        news = {queue: offset for queue, offset in done.items() if before.get(queue) != offset}
        if not news:
            return
        cluster = self._clusters.get(namesrv)
        if cluster is None:
            cluster = self._clusters[namesrv] = Cluster(usual_client(namesrv))

        def commit() -> None:
            for topic in {str(queue.topic) for queue in news}:
                cluster.route(topic)
            cluster.commit(group, news)

        patiently(commit, RETRY_MS, "committing the progress")
        before.update(news)


def _object(text: str | None) -> dict[str, Any]:
    found = orjson.loads(text) if text else None
    return found if isinstance(found, dict) else {}


def track(spark: SparkSession) -> Tracker:
    """Commit every batch of this session's streams as soon as it is done; returns the listener, to be removed again."""
    tracker = Tracker()
    spark.streams.addListener(tracker)
    return tracker
