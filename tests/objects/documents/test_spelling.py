"""Misspelt fields of stored objects: invalid where scheduling would miss the field, else ignored."""

from __future__ import annotations

from typing import Any

import pytest

from tests.objects.documents.manifests import node_manifest, pod_manifest, raw
from wharfinger.errors import InvalidObject
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue
from wharfinger.objects.documents.decode import decode_node, decode_pod, decode_surrounding, pod_from_mapping
from wharfinger.objects.documents.kinds import DECIDING, DELIVERING, FLEET, KINDS
from wharfinger.objects.documents.kubernetes_fields import FILE, kubernetes_fields
from wharfinger.objects.documents.spelling import LONGEST, READ, folded
from wharfinger.objects.model.pod import Pod
from wharfinger.scheduling.state.informer.decoding import observe


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", **fields}]}


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"node_name": "n1"}, "spec.node_name: unknown field; did you mean nodeName?"),
        ({"nodename": "n1"}, "spec.nodename: unknown field; did you mean nodeName?"),
        ({"nodeselector": {"disk": "ssd"}}, "spec.nodeselector: unknown field; did you mean nodeSelector?"),
        ({"toleration": []}, "spec.toleration: unknown field; did you mean tolerations?"),
        ({"schedulername": "x"}, "spec.schedulername: unknown field; did you mean schedulerName?"),
        ({"scheduler_name": "x"}, "spec.scheduler_name: unknown field; did you mean schedulerName?"),
        ({"topology_spread_constraints": []}, "spec.topology_spread_constraints: unknown field; did you mean "),
        ({"priority-class-name": "x"}, "spec.priority-class-name: unknown field; did you mean priorityClassName?"),
        ({"container": []}, "spec.container: unknown field; did you mean containers?"),
        (
            container(resources={"request": {"cpu": "1"}}),
            "spec.containers[0].resources.request: unknown field; did you mean requests?",
        ),
        (container(Resources={}), "spec.containers[0].Resources: unknown field; did you mean resources?"),
        (container(resource={}), "spec.containers[0].resource: unknown field; did you mean resources?"),
        (
            container(ports=[{"container_port": 80}]),
            "spec.containers[0].ports[0].container_port: unknown field; did you mean containerPort?",
        ),
        ({"resources": {"limit": {}}}, "spec.resources.limit: unknown field; did you mean limits?"),
        ({"affinity": {"NodeAffinity": {}}}, "spec.affinity.NodeAffinity: unknown field; did you mean nodeAffinity?"),
        (
            {"tolerations": [{"Key": "a", "operator": "Exists"}]},
            "spec.tolerations[0].Key: unknown field; did you mean key?",
        ),
        ({"host_users": False}, "spec.host_users: unknown field; did you mean hostUsers?"),
        (
            container(restartPolicyRules=[{"Action": "RestartAllContainers"}]),
            "spec.containers[0].restartPolicyRules[0].Action: unknown field; did you mean action?",
        ),
        ({"schedulingGroup": {"pod_group_name": "x"}}, "did you mean podGroupName?"),
        ({"volumes": [{"name": "v", "persistent_volume_claim": {}}]}, "spec.volumes[0].persistent_volume_claim: "),
    ],
)
def test_a_misspelt_field_that_scheduling_reads_makes_a_pod_invalid(spec: dict[str, Any], reason: str) -> None:
    for _ in range(2):  # what was read before changes nothing
        with pytest.raises(InvalidObject) as refused:
            decode_pod(raw(pod_manifest(**spec)))
        assert reason in str(refused.value)
    with pytest.raises(InvalidObject):
        pod_from_mapping(pod_manifest(**spec))


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ({"Spec": {"nodeName": "n1"}}, "Spec: unknown field; did you mean spec?"),
        ({"metadatas": {}}, "metadatas: unknown field; did you mean metadata?"),
        ({"STATUS": {}}, "STATUS: unknown field; did you mean status?"),
    ],
)
def test_a_misspelt_part_makes_a_pod_invalid(part: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidObject, match="unknown field") as refused:
        decode_pod(raw({**pod_manifest(), **part}))
    assert str(refused.value) == reason


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (node_manifest(taint=[]), "spec.taint: unknown field; did you mean taints?"),
        (node_manifest(Unschedulable=True), "spec.Unschedulable: unknown field; did you mean unschedulable?"),
        (node_manifest(taints=[{"key": "a", "Effect": "NoSchedule"}]), "spec.taints[0].Effect: unknown field"),
        (
            node_manifest(status={"allocatable": {"cpu": "1"}, "Allocatable": {"cpu": "2"}}),
            "status.Allocatable: unknown field; did you mean allocatable?",
        ),
        (
            node_manifest(status={"allocatable": {}, "declared_features": []}),
            "status.declared_features: unknown field; did you mean declaredFeatures?",
        ),
        (node_manifest(metadata={"label": {}}), "metadata.label: unknown field; did you mean labels?"),
        (
            node_manifest(status={"allocatable": {}, "images": [{"names": [], "size_bytes": 1}]}),
            "status.images[0].size_bytes: unknown field; did you mean sizeBytes?",
        ),
    ],
)
def test_a_misspelt_field_that_scheduling_reads_makes_a_node_invalid(node: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidObject) as refused:
        decode_node(raw(node))
    assert reason in str(refused.value)


def test_a_misspelt_selector_makes_a_service_and_a_budget_invalid() -> None:
    service = {"kind": "Service", "metadata": {"name": "s"}, "spec": {"Selector": {"app": "a"}}}
    with pytest.raises(InvalidObject, match=r"spec\.Selector: unknown field; did you mean selector\?"):
        decode_surrounding(raw(service), "Service")
    budget = {"metadata": {"name": "b"}, "spec": {"selector": {"match_labels": {"app": "a"}}}}
    with pytest.raises(InvalidObject, match=r"spec\.selector\.match_labels: unknown field; did you mean matchLabels"):
        decode_surrounding(raw(budget), "PodDisruptionBudget")


def test_other_unknown_fields_are_ignored() -> None:
    """Newer releases of Kubernetes have fields that are not listed here; only misspelt ones are refused."""
    plain = pod_manifest()
    found = decode_pod(raw(plain))
    strange = pod_manifest(
        status={"podIPs": [], "hostIPs": [], "observed_generation": 3, "somethingNew": {}},
        brandNew={"nodename": "n1"},
        service_account_name="x",
        node="n1",
    )
    strange["spec"]["containers"][0]["image_pull_policy"] = "Always"
    strange["x" * (LONGEST + 1)] = strange["metadata"]["somethingElse"] = 1
    assert decode_pod(raw(strange)) == found


def test_keys_of_maps_are_never_judged() -> None:
    words = dict.fromkeys(("node_name", "Spec", "request", "nodeselector", "label"), "1")
    spec = {
        "nodeSelector": words,
        "overhead": words,
        "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": words}}
        ]}},
        **container(resources={"requests": words, "limits": words}),
    }  # fmt: skip
    pod = decode_pod(raw(pod_manifest(metadata={"labels": words, "annotations": words}, **spec)))
    assert pod.node_selector == words
    assert decode_node(raw(node_manifest(metadata={"labels": words}, status={"allocatable": words, "capacity": words})))


def test_a_misspelt_bound_pod_is_reported_and_keeps_its_place() -> None:
    manifest = pod_manifest(nodeName="n1", node_selector={"disk": "ssd"})
    key = keys.pod("default", "web")
    seen = observe(Event(KeyValue(key, raw(manifest), 5, 6), deleted=False))
    assert seen is not None
    assert seen.invalid == "spec.node_selector: unknown field; did you mean nodeSelector?"
    assert isinstance(seen.value, Pod)
    assert (seen.value.node_name, dict(seen.value.requests)["cpu"]) == ("n1", 100)


def test_every_kind_that_may_be_stored_is_listed_with_all_types_below_it() -> None:
    found = kubernetes_fields()
    listed = {tuple(title.split()) for title in found.kinds}
    for kind in KINDS:
        if kind not in (FLEET, *DECIDING, *DELIVERING):  # these are of other makers
            assert any((version.rpartition("/")[0], name) == (kind.group, kind.name) for version, name in listed), kind
    below = {name for fields in found.types.values() for name in fields.values() if name}
    assert below | set(found.kinds.values()) == set(found.types)
    assert FILE.stat().st_size < 64 * 1024


def test_the_list_names_the_module_that_the_generator_pins() -> None:
    root = FILE.resolve().parents[4]
    origin = kubernetes_fields().origin
    pinned = (root / "tools" / "kubernetes-fields" / "go.mod").read_text()
    assert f"{origin['module']} {origin['version']}\n" in pinned
    sums = (root / "tools" / "kubernetes-fields" / "go.sum").read_text()
    assert f"{origin['module']} {origin['version']} {origin['sum']}\n" in sums
    assert origin["version"].startswith("v0.36.")


def test_fields_that_are_read_are_fields_of_kubernetes() -> None:
    types = kubernetes_fields().types
    unknown = {(name, field) for name, fields in READ.items() for field in fields if field not in types[name]}
    assert unknown == {("scheduling/v1alpha2.PodGroupSpec", "minMember")}  # of the scheduler-plugins' PodGroup
    for name, fields in READ.items():
        assert len({folded(field) for field in fields}) == len(fields), name
