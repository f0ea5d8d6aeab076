"""The sentence of the start banner."""

from __future__ import annotations

import pytest

from cometmq.broker.ha.config import HaConfig
from cometmq.broker.promise import promise
from cometmq.broker.settings import load_settings
from cometmq.store.config import ASYNC_FLUSH, SYNC_FLUSH, StoreConfig


@pytest.mark.parametrize(
    ("flush", "role", "replicas", "words"),
    [
        (SYNC_FLUSH, "ASYNC_MASTER", 1, ["survives a kill and a power cut", "no slave is waited for", "SYNC_FLUSH"]),
        (ASYNC_FLUSH, "ASYNC_MASTER", 1, ["within 10 s", "but not a power cut", "no slave is waited for"]),
        (ASYNC_FLUSH, "SYNC_MASTER", 1, ["no slave is waited for"]),
        (SYNC_FLUSH, "SYNC_MASTER", 3, ["2 slave(s) reported it"]),
        (SYNC_FLUSH, "SLAVE", 1, ["follows its master", "synced to its disk"]),
    ],
)
def test_the_sentence(flush: str, role: str, replicas: int, words: list[str]) -> None:
    text = promise(role, StoreConfig(flush_disk_type=flush), HaConfig(in_sync_replicas=replicas))
    assert all(word in text for word in words), text


def test_sync_flush_is_the_default_and_a_file_that_names_a_mode_gets_it() -> None:
    assert load_settings({}).store.flush_disk_type == SYNC_FLUSH
    assert load_settings({"flushDiskType": "ASYNC_FLUSH"}).store.flush_disk_type == ASYNC_FLUSH
    asynchronous = load_settings({"flushDiskType": "ASYNC_FLUSH"}).store
    intervals = (
        asynchronous.flush_interval_commit_log,
        asynchronous.flush_commit_log_least_pages,
        asynchronous.flush_commit_log_thorough_interval,
        asynchronous.sync_flush_timeout,
    )
    assert intervals == (500, 4, 10_000, 5_000)
