"""`wharfinger kubernetes chart`: Helm makes of it what `kubernetes manifests` prints."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.cli.shell import Shell
from wharfinger.kubernetes.cli.chart import chart_files
from wharfinger.kubernetes.cli.install_choices import InstallChoices
from wharfinger.kubernetes.cli.manifests import objects_of

TOOLS = Path(__file__).resolve().parents[3] / ".tools"
HELM = shutil.which("helm") or shutil.which("helm", path=str(TOOLS))
with_helm = pytest.mark.skipif(HELM is None, reason="there is no helm: `make helm` builds it, with Go, in minutes")


@pytest.fixture
def chart(outside: Shell, tmp_path: Path) -> Path:
    answer = outside("kubernetes", "chart", str(tmp_path / "chart"))
    assert answer.code == 0, answer.err
    return tmp_path / "chart"


def rendered(chart: Path, namespace: str, values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    file = chart.parent / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    command = [str(HELM), "template", "release", str(chart), f"--namespace={namespace}", f"--values={file}"]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def camel(name: str) -> str:
    return re.sub("_(.)", lambda found: found[1].upper(), name)


def by_name(objects: Any) -> dict[tuple[str, ...], Any]:
    found = {
        (one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in objects if one
    }
    for obj in found.values():
        if "scheduler.yaml" in obj.get("data", ()):
            obj["data"]["scheduler.yaml"] = yaml.safe_load(obj["data"]["scheduler.yaml"])
    return found


@with_helm
@pytest.mark.parametrize(
    "choices",
    [
        InstallChoices(),
        InstallChoices(temporal="temporal.example:7233"),
        InstallChoices(insecure=True, replicas=4, etcd_replicas=5, namespace="other", image="r/x:1", cluster="123"),
        InstallChoices(with_hub=True, with_member=True, monitoring=True, cert_manager=True, temporal_namespace="t"),
        InstallChoices(scheduler_name="default-scheduler", bootstrap_scheduler="stays", temporal="t:1", insecure=True),
    ],
    ids=["default", "temporal", "insecure", "everything", "default-scheduler"],
)
def test_helm_makes_what_the_command_prints(chart: Path, choices: InstallChoices) -> None:
    """But for the namespace, which is Helm's."""
    given = {name: getattr(choices, name) for name in InstallChoices.__slots__}
    known = yaml.safe_load((chart / "values.yaml").read_text())

    answer = rendered(chart, choices.namespace, {camel(name): v for name, v in given.items() if camel(name) in known})

    assert answer.returncode == 0, answer.stderr
    printed = by_name(one for one in objects_of(choices) if one["kind"] != "Namespace")
    assert by_name(yaml.safe_load_all(answer.stdout)) == printed


@with_helm
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"bootstrapScheduler": "wharfinger"}, "would have to place its own pods"),
        ({"insecure": True, "certManager": True}, "insecure excludes certManager"),
        ({"etcdReplicas": 2}, "etcdReplicas"),
        ({"noSuchValue": 1}, "noSuchValue"),
    ],
)
def test_helm_refuses_what_the_command_refuses(chart: Path, values: dict[str, Any], said: str) -> None:
    answer = rendered(chart, "wharfinger", values)

    assert answer.returncode != 0
    assert said in answer.stderr


def test_values_fit_their_schema_and_are_explained() -> None:
    files = chart_files()
    schema = json.loads(files["values.schema.json"])

    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(yaml.safe_load(files["values.yaml"]), schema)
    assert all(one["description"] for name, one in schema["properties"].items() if name != "global")


def test_folder_that_exists_is_left_alone(outside: Shell, tmp_path: Path) -> None:
    answer = outside("kubernetes", "chart", str(tmp_path))

    assert (answer.code, list(tmp_path.iterdir())) == (2, [])
    assert "exists: name a new folder" in answer.err
