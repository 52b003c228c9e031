"""The compose files: what can be judged without a Docker engine."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.conftest import TemporalServer as RunningTemporal
from tests.patience import patient
from wharfinger.dev import binaries
from wharfinger.dev.etcd import EtcdServer
from wharfinger.dev.supervisor import clean_environment
from wharfinger.dev.temporal import TemporalServer

ROOT = Path(__file__).resolve().parents[2]
OWN = re.compile(r"--(name|data-dir|initial-|listen-|advertise-|unsafe-|host-)")
"""Options of etcd that differ by nature between a container and a process here."""


SCHEMA = Draft202012Validator(json.loads((Path(__file__).parent / "compose-spec.json").read_text()))
FILES = ("docker-compose.yml", "docker-compose.production.yml")


def read(name: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / name).read_text())  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return read("docker-compose.yml")


@pytest.fixture(scope="module")
def services(project: dict[str, Any]) -> dict[str, Any]:
    return project["services"]  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def production() -> dict[str, Any]:
    """Services of the file for production; tests/integration/test_real_cluster.py runs what they run."""
    return read("docker-compose.production.yml")["services"]  # type: ignore[no-any-return]


def faults(project: dict[str, Any]) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in SCHEMA.iter_errors(project)]


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_what_the_compose_specification_asks_for(name: str) -> None:
    assert faults(read(name)) == []


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


@pytest.mark.parametrize("name", FILES)
def test_what_services_refer_to_is_declared(name: str) -> None:
    """The schema cannot say so."""
    project = read(name)
    services = project["services"]
    mounts = {mount.split(":")[0] for service in services.values() for mount in service.get("volumes", ())}
    folders = {mount for mount in mounts if mount.startswith(".")}
    awaited = {name for service in services.values() for name in service.get("depends_on", ())}
    used = [secret for service in services.values() for secret in service.get("secrets", ())]
    secrets = {secret["source"] if isinstance(secret, dict) else secret for secret in used}

    assert mounts - folders == set(project["volumes"])
    assert all((ROOT / folder).is_dir() for folder in folders)
    assert awaited <= set(services)
    assert secrets == set(project.get("secrets", ()))


@pytest.mark.parametrize("name", FILES)
def test_awaited_services_have_a_health_check_or_complete(name: str) -> None:
    services = read(name)["services"]
    for service in services.values():
        for awaited, wait in service.get("depends_on", {}).items():
            if wait["condition"] == "service_healthy":
                assert "healthcheck" in services[awaited]
            else:
                assert wait["condition"] == "service_completed_successfully"
                assert services[awaited]["restart"].startswith("on-failure")


@pytest.mark.parametrize("name", FILES)
def test_services_that_end_are_jobs_that_another_awaits(name: str) -> None:
    """`docker compose up --wait` fails when a service ends, with 0 too, unless another awaits that it completes."""
    services = read(name)["services"]
    jobs = {name for name, service in services.items() if service["restart"].startswith("on-failure")}
    awaited = {
        job
        for service in services.values()
        for job, wait in service.get("depends_on", {}).items()
        if wait["condition"] == "service_completed_successfully"
    }

    assert jobs == awaited != set()


def test_jobs_and_health_checks_of_temporal_run(services: dict[str, Any], temporal_server: RunningTemporal) -> None:
    """As processes, with the pinned CLI: this is what can be run without a Docker engine."""
    temporal = str(binaries.locate(binaries.TEMPORAL))
    retention = [part.replace("temporal:7233", temporal_server.address) for part in services["retention"]["command"]]
    kind, entry, *health = services["temporal"]["healthcheck"]["test"]
    assert (kind, entry) == ("CMD", "temporal")

    for command in (health, retention, retention):  # the job runs at every start
        environment = clean_environment(TEMPORAL_ADDRESS=temporal_server.address)
        ended = subprocess.run(
            [temporal, *command], env=environment, capture_output=True, timeout=patient(60), check=False
        )
        assert ended.returncode == 0, ended.stderr

    described = [temporal, "operator", "namespace", "describe", "--namespace", "default", "--output", "json"]
    described += ["--address", temporal_server.address]
    found = json.loads(subprocess.run(described, capture_output=True, timeout=patient(60), check=True).stdout)
    assert found["config"]["workflowExecutionRetentionTtl"] == "2592000s"


def test_images_are_pinned_to_the_versions_that_the_tools_are_built_from(services: dict[str, Any]) -> None:
    cli = re.search(
        r"github.com/temporalio/cli v(\S+)", (binaries.modules_folder(binaries.TEMPORAL) / "go.mod").read_text()
    )

    assert services["etcd"]["image"].endswith(f":v{binaries.pinned(binaries.ETCD)}")
    assert cli is not None
    assert services["temporal"]["image"] == f"temporalio/temporal:{cli.group(1)}"
    assert services["retention"]["image"] == services["temporal"]["image"]


def test_production_is_pinned_to_the_same_servers(production: dict[str, Any], services: dict[str, Any]) -> None:
    ui = re.search(r"ui-server/v2 v(\S+)", (binaries.modules_folder(binaries.TEMPORAL) / "go.mod").read_text())
    server = binaries.pinned(binaries.TEMPORAL)

    assert ui is not None
    assert binaries.pinned(binaries.TEMPORAL_SERVER) == server
    assert production["etcd"]["image"] == services["etcd"]["image"]
    assert production["temporal"]["image"] == f"temporalio/server:{server}"
    assert production["temporal-ui"]["image"] == f"temporalio/ui:{ui.group(1)}"
    for job in ("temporal-schema", "temporal-namespace"):
        assert production[job]["image"] == f"temporalio/admin-tools:{server}"
    assert re.fullmatch(r"postgres:\d+\.\d+", production["postgres"]["image"])


def test_production_has_no_password_in_it() -> None:
    said = read("docker-compose.production.yml")
    names = [
        (name, str(value))
        for service in said["services"].values()
        for name, value in service.get("environment", {}).items()
        if re.search("PASSWORD|PWD|SECRET|API_KEY", name)
    ]

    assert {name for name, _ in names} == {
        "POSTGRES_PASSWORD_FILE", "SQL_PASSWORD_FILE", "WHARFINGER_ETCD_PASSWORD_FILE"
    }  # fmt: skip
    assert {value for _, value in names} <= {f"/run/secrets/{name}" for name in said["secrets"]}
    assert all(set(secret) == {"file"} for secret in said["secrets"].values())


def test_production_workers_serve_the_namespace_that_is_made(production: dict[str, Any]) -> None:
    made = production["temporal-namespace"]["environment"]["TEMPORAL_NAMESPACE"]

    assert production["worker"]["environment"]["WHARFINGER_TEMPORAL_NAMESPACE"] == made
    assert production["worker"]["deploy"]["replicas"] > 1
    assert set(production["worker"]["depends_on"]) == {
        "etcd", "etcd-users", "temporal", "temporal-namespace"
    }  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_etcd_runs_with_the_settings_of_dev(name: str) -> None:
    services = read(name)["services"]
    dev = EtcdServer(Path("etcd"), Path("data"), 2379).command()

    expected = {option for option in dev[1:] if not OWN.match(option)}

    assert {option for option in services["etcd"]["command"][1:] if not OWN.match(option)} == expected
    assert "--host-whitelist=etcd,localhost,127.0.0.1" in services["etcd"]["command"]


def test_temporal_runs_with_the_settings_of_dev(services: dict[str, Any]) -> None:
    """Spelt --option=value there and --option value here."""
    dev = TemporalServer(Path("temporal"), 7233, database=Path("/home/temporal/temporal.db"), ui_port=8233).command()
    pairs = {f"{name}={value}" for name, value in itertools.pairwise(dev) if name.startswith("--")}
    expected = {pair for pair in pairs if not pair.startswith(("--ip", "--port", "--ui-"))}

    assert {option for option in services["temporal"]["command"][2:] if not option.startswith("--ip")} == expected


@pytest.mark.parametrize("name", ["docker-compose.yml", "docker-compose.production.yml"])
def test_workers_get_the_transaction_limit_of_etcd(name: str) -> None:
    found = read(name)["services"]

    assert f"--max-txn-ops={found['worker']['environment']['WHARFINGER_MAX_TXN_OPS']}" in found["etcd"]["command"]


@pytest.mark.parametrize(
    ("name", "ports"),
    [
        ("docker-compose.yml", ["10259:10259", "2379:2379", "7233:7233", "8233:8233"]),
        ("docker-compose.production.yml", ["2379:2379", "7233:7233", "8233:8080"]),
    ],
)
def test_nothing_is_published_beyond_loopback(name: str, ports: list[str]) -> None:
    published = [port for service in read(name)["services"].values() for port in service.get("ports", ())]

    assert sorted(published) == [f"127.0.0.1:{port}" for port in ports]


def test_the_worker_waits_for_healthy_servers_and_has_time_to_drain(services: dict[str, Any]) -> None:
    worker = services["worker"]

    assert {name: wait["condition"] for name, wait in worker["depends_on"].items()} == {
        "etcd": "service_healthy",
        "etcd-users": "service_completed_successfully",
        "temporal": "service_healthy",
        "retention": "service_completed_successfully",
    }
    assert worker["stop_grace_period"] == "25s"


def test_image_runs_unprivileged_and_has_a_health_check() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    commands = [json.loads(line[line.index("[") :]) for line in lines if line.startswith(("ENTRYPOINT", "CMD"))]

    assert "USER 10001" in lines
    assert any(line.startswith("HEALTHCHECK") for line in lines)
    assert commands == [["wharfinger"], ["worker"]]
