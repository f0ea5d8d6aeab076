"""Each opens the folder that the other wrote, serves the same, and goes on writing; one at a time."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.original import BrokerProcess, CometNamesrv, JavaBroker, ServerFailed

from .exchange import (
    await_offsets_on_disk,
    broker_of,
    fill,
    messages_of,
    queue_files,
    served,
)

pytestmark = pytest.mark.timeout(300)

COUNT = 400
OTHER = {"java": "comet", "comet": "java"}


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    with CometNamesrv(tmp_path_factory.mktemp("namesrv")) as running:
        yield [running.addr]


@pytest.mark.parametrize("end", ["clean", "kill"])
@pytest.mark.parametrize("first", ["java", "comet"])
def test_a_folder_passes_to_the_other_and_back(first: str, end: str, tmp_path: Path, namesrv: list[str]) -> None:
    store = tmp_path / "store"
    brokers = {kind: broker_of(kind, tmp_path, store, namesrv) for kind in OTHER}
    before = None
    for turn, kind in enumerate((first, OTHER[first], first)):
        with brokers[kind] as broker:
            if before is not None:
                assert served(broker, messages_of(turn * COUNT)) == before
            if turn < 2:
                fill(broker, turn * COUNT, COUNT)
                before = served(broker, messages_of((turn + 1) * COUNT))
                assert before.wrong_searches() == []
                if end == "kill":
                    await_offsets_on_disk(store, before.committed)
                else:
                    broker.stop()
            broker.kill()  # where nobody looks, too: a clean stop of the original takes a quarter of a minute


@pytest.mark.parametrize("writer", ["java", "comet"])
def test_queues_dispatched_from_the_same_log_are_equal(writer: str, tmp_path: Path, namesrv: list[str]) -> None:
    written, rebuilt = tmp_path / "written", tmp_path / "rebuilt"
    with broker_of(writer, tmp_path / "writer", written, namesrv) as broker:
        fill(broker, 0, 3 * COUNT)
        before = served(broker, messages_of(3 * COUNT))
        await_offsets_on_disk(written, before.committed)
        end_with_queues_on_disk(broker)
    shutil.copytree(written / "commitlog", rebuilt / "commitlog")
    shutil.copytree(written / "config", rebuilt / "config")
    with broker_of(OTHER[writer], tmp_path / "reader", rebuilt, namesrv) as broker:
        assert served(broker, messages_of(3 * COUNT)) == before
        end_with_queues_on_disk(broker)
    files = queue_files(written)
    assert len(files) > 3, "the queues should take more than one file each"
    assert queue_files(rebuilt) == files


def end_with_queues_on_disk(broker: BrokerProcess) -> None:
    """The original writes its queues through a map, so they outlive a kill; CometMQ's may be rebuilt after one."""
    if isinstance(broker, JavaBroker):
        broker.kill()
    else:
        broker.stop()


@pytest.mark.parametrize("holder", ["java", "comet"])
def test_a_folder_in_use_is_refused(holder: str, tmp_path: Path, namesrv: list[str]) -> None:
    store = tmp_path / "store"
    with broker_of(holder, tmp_path, store, namesrv) as broker:
        fill(broker, 0, 20)
        before = served(broker, messages_of(20))
        with pytest.raises(ServerFailed, match=r"Lock failed, MQ already started|is locked by"):
            broker_of(OTHER[holder], tmp_path, store, namesrv).start()
        assert served(broker, messages_of(20)) == before
        fill(broker, 20, 20)
        assert len(served(broker, messages_of(40)).records[0]) > len(before.records[0])
        broker.kill()
