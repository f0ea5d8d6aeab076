"""Tables that are lost: the start is refused by name, `store check` says the same, and `store repair` mends it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import StartBroker
from tests.unit.broker.state_kit import StillClock, file_table
from tests.unit.broker.test_send_and_pull import pulled, send

from cometmq.broker.config import BrokerConfig
from cometmq.broker.offsets import Offsets
from cometmq.cli import main
from cometmq.errors import StoreError


@pytest.mark.parametrize("left", ["nothing", "nothing written", "an empty copy before"])
async def test_a_log_without_topics_is_not_served(
    broker: StartBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str], left: str
) -> None:
    async with broker() as (_, channel):
        await channel.call(send(), b"kept")
    topics = tmp_path / "store" / "config" / "topics.json"
    backup = topics.with_name("topics.json.bak")
    for copy in (topics, backup):
        copy.unlink(missing_ok=True)
    if left != "nothing":
        topics.touch()
    if left == "an empty copy before":
        backup.touch()
    before = sorted(topics.parent.iterdir())
    with pytest.raises(StoreError, match=r"topics\.json is (gone|empty).*cometmq store repair"):
        async with broker():
            pass
    assert sorted(topics.parent.iterdir()) == before
    root = str(tmp_path / "store")
    assert main(["store", "check", root]) == 1
    assert f"topics.json is {'gone' if left == 'nothing' else 'empty'}" in capsys.readouterr().out
    assert main(["store", "repair", root, "--apply", "--accept-loss"]) == 0
    assert main(["store", "check", root]) == 0
    async with broker() as (_, channel):
        assert [bytes(record.body) for record in await pulled(channel)] == [b"kept"]


async def test_a_young_store_needs_no_table_and_makes_its_own(broker: StartBroker, tmp_path: Path) -> None:
    topics = tmp_path / "store" / "config" / "topics.json"
    topics.parent.mkdir(parents=True)
    topics.touch()  # Java died early
    async with broker():
        assert b"TBW102" in topics.read_bytes()


@pytest.mark.parametrize("content", ["", '{"offsetTable": 5}'])
async def test_another_table_that_has_no_content(
    broker: StartBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    async with broker() as (_, channel):
        await channel.call(send(), b"kept")
    offsets = tmp_path / "store" / "config" / "consumerOffset.json"
    offsets.write_text(content)
    with pytest.raises(StoreError, match=r"consumerOffset\.json is (empty|JSON, but not the table)"):
        async with broker():
            pass
    root = str(tmp_path / "store")
    assert main(["store", "check", root]) == 1
    assert "consumerOffset.json is" in capsys.readouterr().out
    assert main(["store", "repair", root, "--apply", "--accept-loss"]) == 0
    async with broker() as (_, channel):
        assert [bytes(record.body) for record in await pulled(channel)] == [b"kept"]


@pytest.mark.parametrize("saved_before", [False, True])
async def test_java_may_be_killed_in_the_first_save_of_a_table(
    broker: StartBroker, tmp_path: Path, saved_before: bool
) -> None:
    """It writes the copy before, if there is one, and then in place."""
    async with broker() as (_, channel):
        await channel.call(send(), b"kept")
    config = tmp_path / "store" / "config"
    (tmp_path / "store" / "abort").touch()
    (config / "consumerFilter.json").write_bytes(b"")
    if saved_before:
        (config / "consumerFilter.json.bak").write_bytes(b"")
        with pytest.raises(StoreError, match=r"consumerFilter\.json is empty"):
            async with broker():
                pass
    else:
        async with broker() as (_, channel):
            assert [bytes(record.body) for record in await pulled(channel)] == [b"kept"]


async def test_numbers_that_are_given_again_are_not_passed_over(
    broker: StartBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A power cut took what a group had consumed: it goes on at the end of the queue that is left."""
    async with broker() as (_, channel):
        for _ in range(3):
            await channel.call(send(), b"kept")
    path = tmp_path / "store" / "config" / "consumerOffset.json"
    offsets = Offsets(file_table(path), BrokerConfig(), StillClock())
    offsets.commit("g", "orders", 0, 7)
    offsets.commit("g", "orders", 1, 2)
    offsets.commit("other", "orders", 0, 3)
    offsets.persist()
    async with broker():
        assert "orders@g queue 0: committed 7, but the queue ends at 3" in caplog.text
    offsets = Offsets(file_table(path), BrokerConfig(), StillClock())
    assert [offsets.query(*of) for of in (("g", "orders", 0), ("g", "orders", 1), ("other", "orders", 0))] == [3, 0, 3]
