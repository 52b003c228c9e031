"""Connections: what the settings come to."""

from __future__ import annotations

import pytest

from wharfinger.client.starts import temporal_configuration
from wharfinger.process.connecting import is_loopback
from wharfinger.settings import TemporalSettings


@pytest.mark.parametrize(
    ("address", "near"),
    [
        ("127.0.0.1:7233", True),
        ("[::1]:7233", True),
        ("localhost:7233", True),
        ("10.0.0.7:7233", False),
        ("temporal.example.com:7233", False),
    ],
)
def test_only_this_machine_is_near(address: str, near: bool) -> None:
    assert is_loopback(address) is near


def test_settings_override_the_sdks_environment_which_overrides_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    assert temporal_configuration(TemporalSettings())["target_host"] == "127.0.0.1:7233"

    monkeypatch.setenv("TEMPORAL_ADDRESS", "far:7233")
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "theirs")
    found = temporal_configuration(TemporalSettings(namespace="ours"))

    assert (found["target_host"], found["namespace"]) == ("far:7233", "ours")
