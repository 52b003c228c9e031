"""Connections: what the settings come to; whether Temporal answers: silence counts, a refusal does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.service import RPCError, RPCStatusCode

from tests.clock import Clock
from wharfinger.errors import ConfigurationError
from wharfinger.process.connecting import Reachability, is_near, temporal_configuration
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
    assert is_near(address) is near


def test_no_api_key_of_temporal_goes_out_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPORAL_API_KEY", "s3cret")
    monkeypatch.setenv("TEMPORAL_TLS", "false")
    with pytest.raises(ConfigurationError, match="sent in the clear") as refused:
        temporal_configuration(TemporalSettings(address="far:7233"))
    assert "s3cret" not in str(refused.value)
    assert temporal_configuration(TemporalSettings(address="127.0.0.1:7233"))["api_key"] == "s3cret"
    monkeypatch.delenv("TEMPORAL_TLS")
    assert temporal_configuration(TemporalSettings(address="far:7233"))["api_key"] == "s3cret"


def test_settings_override_the_sdks_environment_which_overrides_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    assert temporal_configuration(TemporalSettings())["target_host"] == "127.0.0.1:7233"

    monkeypatch.setenv("TEMPORAL_ADDRESS", "far:7233")
    monkeypatch.setenv("TEMPORAL_NAMESPACE", "theirs")
    found = temporal_configuration(TemporalSettings(namespace="ours"))

    assert (found["target_host"], found["namespace"]) == ("far:7233", "ours")


def test_a_configuration_that_cannot_be_read_is_not_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "temporal.toml"
    file.write_text('[profile.default]\napi_key = "s3cret\n')
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(file))
    with pytest.raises(ConfigurationError, match="line 2, column 18") as refused:
        temporal_configuration(TemporalSettings())
    assert "s3cret" not in str(refused.value)


class Probe:
    def __init__(self) -> None:
        self.status: RPCStatusCode | None = None

    async def __call__(self) -> None:
        if self.status is not None:
            raise RPCError("told so", self.status, b"")


async def test_temporal_is_unreachable_after_patience_until_the_first_answer() -> None:
    probe, clock, changes = Probe(), Clock(), []
    reachability = Reachability(probe, patience=10, clock=clock, changed=lambda: changes.append(1))
    probe.status = RPCStatusCode.UNAVAILABLE
    clock.advance(9)
    await reachability.ask()
    assert reachability.reachable

    clock.advance(1)
    await reachability.ask()
    assert not reachability.reachable

    probe.status = None
    await reachability.ask()
    assert reachability.reachable
    assert len(changes) == 2


async def test_a_refusal_is_an_answer() -> None:
    probe, clock = Probe(), Clock()
    reachability = Reachability(probe, patience=10, clock=clock, changed=lambda: None)
    probe.status = RPCStatusCode.PERMISSION_DENIED
    clock.advance(100)
    await reachability.ask()

    assert reachability.reachable
