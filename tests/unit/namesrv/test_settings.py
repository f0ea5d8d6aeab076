"""Settings over the network: an allow-list, all or nothing, kept in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cometmq.config import keys_of, read_properties
from cometmq.errors import ConfigError, RequestRefused
from cometmq.namesrv.config import CHANGEABLE, NamesrvConfig
from cometmq.namesrv.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(NamesrvConfig(config_store_path=str(tmp_path / "namesrv.conf")), {"theirs": "1"})


def test_a_change_takes_effect_and_is_kept(settings: Settings) -> None:
    settings.update("orderMessageEnable=true\nwaitSecondsForService=7")
    assert settings.current.order_message_enable and settings.current.wait_seconds_for_service == 7
    kept = read_properties(settings.current.config_store_path)
    assert kept["orderMessageEnable"] == "true"
    assert kept["theirs"] == "1"


@pytest.mark.parametrize("key", sorted(set(keys_of(NamesrvConfig)) - CHANGEABLE))
def test_paths_addresses_and_the_list_itself_cannot_change(settings: Settings, key: str) -> None:
    before = settings.current
    with pytest.raises(RequestRefused) as refused:
        settings.update(f"orderMessageEnable=true\n{key}=/etc/cron.d/x")
    assert refused.value.response == "NO_PERMISSION"
    assert settings.current is before
    assert not Path(before.config_store_path).exists()


def test_no_changeable_key_is_a_path_a_class_or_an_address() -> None:
    words = ("path", "dir", "home", "class", "addr", "listenport", "blacklist", "auth", "acl", "tls")
    assert [key for key in CHANGEABLE if any(word in key.lower() for word in words)] == []
    assert set(keys_of(NamesrvConfig)) >= CHANGEABLE


@pytest.mark.parametrize(
    "key", ["rocketmqHome", "configStorePathName", "configStorepath", "nonsense", " kvConfigPath "]
)
def test_unknown_and_misspelt_keys_are_refused(settings: Settings, key: str) -> None:
    with pytest.raises(RequestRefused):
        settings.update(f"{key}=x")


def test_the_black_list_can_take_more_away(tmp_path: Path) -> None:
    config = NamesrvConfig(config_store_path=str(tmp_path / "c"), config_black_list="supportActingMaster")
    with pytest.raises(RequestRefused):
        Settings(config).update("supportActingMaster=true")


@pytest.mark.parametrize("text", ["waitSecondsForService=soon", "orderMessageEnable=maybe"])
def test_a_value_that_cannot_be_used_is_refused(settings: Settings, text: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        settings.update(f"enableTopicList=false\n{text}")
    assert refused.value.response == "INVALID_PARAMETER"
    assert settings.current.enable_topic_list


def test_a_change_that_cannot_be_kept_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = Settings(NamesrvConfig(config_store_path=str(tmp_path / "file" / "namesrv.conf")))
    before = settings.current
    with pytest.raises(ConfigError, match="cannot write"):
        settings.update("orderMessageEnable=true")
    assert settings.current is before


def test_all_keys_are_shown_sorted(settings: Settings) -> None:
    lines = settings.render().splitlines()
    assert lines == sorted(lines, key=lambda line: line.partition("=")[0])
    assert "listenPort=9876" in lines and "theirs=1" in lines
