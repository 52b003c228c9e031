"""A key of Temporal's that was rotated counts without a restart."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from wharfinger.process.api_keys import renew
from wharfinger.settings import TemporalSettings

SETTINGS = TemporalSettings(address="127.0.0.1:7233")


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The SDK's configuration file."""
    path = tmp_path / "temporal.toml"
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(path))
    monkeypatch.delenv("TEMPORAL_API_KEY", raising=False)
    return path


def write(file: Path, key: str) -> None:
    file.write_text(f'[profile.default]\napi_key = "{key}"\n')


def test_a_rotated_key_is_given_to_the_client_and_named_in_no_log(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    client: Any = SimpleNamespace(api_key="first")
    caplog.set_level(logging.INFO)
    write(file, "first")
    assert renew(client, SETTINGS) == ""
    assert not caplog.messages
    write(file, "second")
    assert renew(client, SETTINGS) == ""
    assert client.api_key == "second"
    assert caplog.messages == ["api_key_renewed"]


@pytest.mark.parametrize("text", ["", '[profile.default]\napi_key = "sec', "[profile.other]\n"])
def test_a_file_without_a_key_changes_nothing(file: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    client: Any = SimpleNamespace(api_key="first")
    file.write_text(text)
    assert "sec" not in renew(client, SETTINGS)
    file.unlink()
    renew(client, SETTINGS)
    assert client.api_key == "first"
    assert not caplog.messages


def test_a_connection_without_a_key_gets_none_later(file: Path) -> None:
    client: Any = SimpleNamespace(api_key=None)
    write(file, "in the clear")
    assert renew(client, SETTINGS) == "this process connected without an API key: restart it"
    assert client.api_key is None


def test_a_key_in_a_variable_goes_before_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client: Any = SimpleNamespace(api_key="of the variable")
    monkeypatch.setenv("TEMPORAL_API_KEY", "of the variable")
    write(file, "of the file")
    renew(client, SETTINGS)
    assert client.api_key == "of the variable"
