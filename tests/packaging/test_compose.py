"""The compose file: what can be judged without a Docker engine."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from wharfinger.dev import binaries
from wharfinger.dev.etcd import EtcdServer
from wharfinger.dev.temporal import TemporalServer

ROOT = Path(__file__).resolve().parents[2]
OWN = re.compile(r"--(name|data-dir|initial-|listen-|advertise-|unsafe-)")
"""Options of etcd that differ by nature between a container and a process here."""


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return content["services"]  # type: ignore[no-any-return]


def test_images_are_pinned_to_the_versions_that_the_tools_are_built_from(services: dict[str, Any]) -> None:
    cli = re.search(
        r"github.com/temporalio/cli v(\S+)", (binaries.modules_folder(binaries.TEMPORAL) / "go.mod").read_text()
    )

    assert services["etcd"]["image"].endswith(f":v{binaries.pinned(binaries.ETCD)}")
    assert cli is not None
    assert services["temporal"]["image"] == f"temporalio/temporal:{cli.group(1)}"
    assert services["retention"]["image"] == services["temporal"]["image"]


def test_etcd_runs_with_the_settings_of_dev(services: dict[str, Any]) -> None:
    dev = EtcdServer(Path("etcd"), Path("data"), 2379).command()

    expected = {option for option in dev[1:] if not OWN.match(option)}

    assert {option for option in services["etcd"]["command"][1:] if not OWN.match(option)} == expected


def test_temporal_runs_with_the_settings_of_dev(services: dict[str, Any]) -> None:
    """Spelt --option=value there and --option value here."""
    dev = TemporalServer(Path("temporal"), 7233, database=Path("/home/temporal/temporal.db"), ui_port=8233).command()
    pairs = {f"{name}={value}" for name, value in itertools.pairwise(dev) if name.startswith("--")}
    expected = {pair for pair in pairs if not pair.startswith(("--ip", "--port", "--ui-"))}

    assert {option for option in services["temporal"]["command"][2:] if not option.startswith("--ip")} == expected


def test_nothing_is_published_beyond_loopback(services: dict[str, Any]) -> None:
    published = [port for service in services.values() for port in service.get("ports", ())]

    assert sorted(published) == [
        "127.0.0.1:10259:10259", "127.0.0.1:2379:2379", "127.0.0.1:7233:7233", "127.0.0.1:8233:8233",
    ]  # fmt: skip


def test_the_worker_waits_for_healthy_servers_and_has_time_to_drain(services: dict[str, Any]) -> None:
    worker = services["worker"]

    assert {name: wait["condition"] for name, wait in worker["depends_on"].items()} == {
        "etcd": "service_healthy",
        "temporal": "service_healthy",
    }
    assert all("healthcheck" in services[name] for name in worker["depends_on"])
    assert worker["stop_grace_period"] == "15s"


def test_the_image_runs_as_nobody_special_and_says_whether_it_lives() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    commands = [json.loads(line[line.index("[") :]) for line in lines if line.startswith(("ENTRYPOINT", "CMD"))]

    assert "USER 10001" in lines
    assert any(line.startswith("HEALTHCHECK") for line in lines)
    assert commands == [["wharfinger"], ["worker"]]
