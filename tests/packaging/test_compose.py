"""The compose file: what can be judged without a Docker engine."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from wharfinger.dev import binaries
from wharfinger.dev.etcd import EtcdServer
from wharfinger.dev.temporal import TemporalServer

ROOT = Path(__file__).resolve().parents[2]
OWN = re.compile(r"--(name|data-dir|initial-|listen-|advertise-|unsafe-)")
"""Options of etcd that differ by nature between a container and a process here."""


SCHEMA = Draft202012Validator(json.loads((Path(__file__).parent / "compose-spec.json").read_text()))


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def services(project: dict[str, Any]) -> dict[str, Any]:
    return project["services"]  # type: ignore[no-any-return]


def faults(project: dict[str, Any]) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in SCHEMA.iter_errors(project)]


def test_the_file_is_what_the_compose_specification_asks_for(project: dict[str, Any]) -> None:
    assert faults(project) == []


@pytest.mark.parametrize(
    ("service", "wrong"),
    [
        ("etcd", {"healthchek": {}}),
        ("etcd", {"healthcheck": {"test": 1}}),
        ("retention", {"depends_on": {"temporal": {"condition": "healthy"}}}),
        ("worker", {"environment": {"WHARFINGER_ETCD": ["http://etcd:2379"]}}),
    ],
)
def test_a_mistake_in_the_file_would_be_found(project: dict[str, Any], service: str, wrong: dict[str, Any]) -> None:
    services = {**project["services"], service: {**project["services"][service], **wrong}}

    assert faults({**project, "services": services})


def test_what_services_refer_to_is_declared(project: dict[str, Any], services: dict[str, Any]) -> None:
    """The schema cannot say so."""
    volumes = {volume.split(":")[0] for service in services.values() for volume in service.get("volumes", ())}
    awaited = {name for service in services.values() for name in service.get("depends_on", ())}

    assert volumes == set(project["volumes"])
    assert awaited <= set(services)


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
