"""Strict validation: all unknown and duplicate fields of a manifest, with path and suggestion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.objects.documents.complete import EVERYTHING
from tests.objects.documents.manifests import node_manifest, pod_manifest
from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.documents import objects
from wharfinger.objects.documents.unknown import MOST, findings

ROOT = Path(__file__).resolve().parents[3]


def test_all_unknown_fields_are_found_with_path_and_suggestion() -> None:
    pod = pod_manifest(node_name="n1", tolerations=[{"key": "a", "tolerationSecond": 3}], dnsPolcy="None")
    pod["spec"]["containers"][0].update(resources={"request": {"cpu": "1"}}, env=[{"nam": "x"}], wharf=1)
    pod["Spec"] = {}
    assert findings(pod) == (
        "spec.containers[0].resources.request: unknown field; did you mean requests?",
        "spec.containers[0].env[0].nam: unknown field; did you mean name?",
        "spec.containers[0].wharf: unknown field",
        "spec.node_name: unknown field; did you mean nodeName?",
        "spec.tolerations[0].tolerationSecond: unknown field; did you mean tolerationSeconds?",
        "spec.dnsPolcy: unknown field; did you mean dnsPolicy?",
        "Spec: unknown field; did you mean spec?",
    )


def test_templates_of_workloads_are_looked_into() -> None:
    template = {"spec": {"containers": [{"name": "c", "Image": "x"}]}}
    job = {"spec": {"template": template, "parallelisms": 1}}
    workload = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "c", "label": {}},
        "spec": {"jobTemplate": job, "schedule": "* * * * *"},
    }
    assert findings(workload) == (
        "metadata.label: unknown field; did you mean labels?",
        "spec.jobTemplate.spec.template.spec.containers[0].Image: unknown field; did you mean image?",
        "spec.jobTemplate.spec.parallelisms: unknown field; did you mean parallelism?",
    )


def test_keys_of_maps_are_free() -> None:
    words = dict.fromkeys(("node_name", "Spec", "request"), "1")
    pod = pod_manifest(metadata={"labels": words, "annotations": words}, nodeSelector=words, overhead=words)
    pod["spec"]["containers"][0]["resources"] = {"requests": words, "limits": words}
    assert findings(pod) == ()
    assert findings(node_manifest(status={"allocatable": words, "capacity": words})) == ()
    assert findings({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": words}) == ()
    assert findings({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c"}, "stringData": words}) == ()


def test_kinds_and_versions_that_are_not_listed_have_no_unknown_fields() -> None:
    for version, kind in (("example.com/v1", "Unicorn"), ("wharfinger.dev/v1", "SchedulerFleet"), ("policy/v9", "Pod")):
        assert findings({"apiVersion": version, "kind": kind, "anything": {"goes": 1}}) == ()


@pytest.mark.parametrize("number", range(len(EVERYTHING)))
def test_fields_that_scheduling_reads_are_known(number: int) -> None:
    assert findings(EVERYTHING[number]) == ()


@pytest.mark.parametrize(
    "path",
    sorted(path for path in (ROOT / "examples").rglob("*.yaml") if path.parent.parent.name != "rk8s"),
    ids=lambda path: path.name,
)
def test_examples_pass(path: Path) -> None:
    for obj in objects(path.read_text(), duplicates=True):
        assert findings(obj) == ()


YAML = """
kind: Pod
apiVersion: v1
metadata: {name: web, labels: {app: a, app: b}}
spec:
  nodeName: n1
  containers:
  - name: c
    name: d
  nodeName: n2
"""


def test_duplicate_keys_of_yaml_are_found_with_their_lines() -> None:
    (pod,) = objects(YAML, duplicates=True)
    assert set(findings(pod)) == {
        "metadata.labels.app: duplicate field (again at line 4)",
        "spec.nodeName: duplicate field (again at line 10)",
        "spec.containers[0].name: duplicate field (again at line 9)",
    }
    assert pod["spec"]["nodeName"] == "n2"  # the last one counts, as in kubectl
    with pytest.raises(InvalidObject, match="stands twice"):
        list(objects(YAML))


def test_duplicate_keys_of_json_are_found_in_every_item_of_a_list() -> None:
    item = '{"metadata": {"name": "a"}, "metadata": {"name": "b"}, "spec": {"nodeName": "x", "nodeName": "y"}}'
    text = f'{{"apiVersion": "v1", "kind": "PodList", "items": [{item}, {{"metadata": {{"name": "c"}}}}]}}'
    first, second = objects(text, duplicates=True)
    assert findings(first) == ("metadata: duplicate field", "spec.nodeName: duplicate field")
    assert findings(second) == ()
    assert first["metadata"]["name"] == "b"


def test_merge_keys_and_aliases_are_no_duplicates() -> None:
    text = "a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  x: 3\n"
    (found,) = objects(text, duplicates=True)
    assert findings(found) == ()
    assert found["b"] == {"x": 3, "y": 2}


def test_what_is_found_is_bounded() -> None:
    many: dict[str, Any] = pod_manifest(**{f"field{number}": 1 for number in range(3 * MOST)})
    found = findings(many)
    assert len(found) == MOST + 1
    assert found[-1] == "and more"
    strange = pod_manifest(**{"x" * 10_000: 1, "tab\tand\nline": 2})
    assert all(len(entry) < 200 and "\n" not in entry for entry in findings(strange))
    deep: Any = {}
    for _ in range(5_000):
        deep = {"x": [deep]}
    with pytest.raises(InvalidObject, match="nested too deeply"):
        findings(pod_manifest(metadata={"annotations": deep}))
