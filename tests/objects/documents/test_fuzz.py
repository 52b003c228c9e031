"""Whatever is stored: reading and changing it raises InvalidObject, of one line, or nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.objects.documents.manifests import node_manifest, pod_manifest, raw
from tests.properties.shares import in_quarters
from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.decode import decode_node, decode_occupant, decode_pod, decode_surrounding
from wharfinger.objects.documents.edit import bind_pod, refuse_pod
from wharfinger.objects.documents.surroundings import KINDS

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["-1", "1e999", "\ud800", ""])
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)
)

TERM = {
    "topologyKey": "zone",
    "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["d"]}]},
    "namespaces": ["n"],
    "namespaceSelector": {},
    "matchLabelKeys": ["a"],
    "mismatchLabelKeys": ["b"],
}
FULL_POD = pod_manifest(
    metadata={
        "labels": {"a": "b", "pod-group.scheduling.sigs.k8s.io/name": "team"},
        "annotations": {"wharfinger.dev/topology-key": "zone"},
    },
    status={
        "phase": "Pending",
        "conditions": [{"type": "PodScheduled"}, {"type": "DisruptionTarget"}],
        "startTime": "x",
    },
    affinity={
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"matchFields": []}}],
        },
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": TERM}]
        },
    },
    initContainers=[{"restartPolicy": "Always", "ports": [{"hostPort": 1}], "resources": {"limits": {"cpu": 1}}}],
    tolerations=[{"key": "k"}],
    topologySpreadConstraints=[
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "minDomains": 2,
            "nodeTaintsPolicy": "Honor",
            "labelSelector": {"matchLabels": {"a": "b"}},
            "matchLabelKeys": ["a"],
        }
    ],
    volumes=[
        {"name": "a", "ephemeral": {}},
        {"image": {"reference": "r"}},
        {"persistentVolumeClaim": {"claimName": "c"}},
        {"rbd": {"monitors": ["m"], "image": "i", "readOnly": True}},
        {"awsElasticBlockStore": {"volumeID": "aws://z/vol-1"}},
    ],
    terminationGracePeriodSeconds=3,
    schedulingGates=[{"name": "g"}],
    schedulingGroup={"podGroupName": "g"},
    resources={"requests": {"cpu": "1"}, "limits": {"memory": "1"}},
    overhead={"cpu": "1m"},
    priority=1,
)
FULL_NODE = node_manifest(
    status={"allocatable": {"cpu": "1"}, "conditions": [{"type": "Ready"}], "images": [{"names": ["a"]}]},
    taints=[{"key": "a"}],
    unschedulable=False,
)

SELECTOR = {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}
FULL_SURROUNDING = {
    "metadata": {"name": "web", "namespace": "default", "labels": {"a": "b"}},
    "spec": {
        "selector": SELECTOR,
        "template": {"metadata": {"labels": {"a": "b"}}},
        "minMember": 3,
        "schedulingPolicy": {"gang": {"minCount": 8}},
        "schedulingConstraints": {"topology": [{"key": "zone"}]},
        "capacity": {"storage": "1Gi"},
        "claimRef": {"namespace": "default", "name": "data", "uid": "u"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "nodeAffinity": {
            "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}
        },
        "gcePersistentDisk": {"pdName": "d"},
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeName": "v",
        "drivers": [{"name": "d", "allocatable": {"count": 3}}],
        "storageCapacity": True,
        "attacher": "d",
        "nodeName": "n",
        "source": {"persistentVolumeName": "v"},
    },
    "provisioner": "d",
    "volumeBindingMode": "WaitForFirstConsumer",
    "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}],
    "nodeTopology": SELECTOR,
    "capacity": "1Gi",
    "status": {"phase": "Bound", "disruptionsAllowed": 1, "disruptedPods": {"web-1": "2026-01-01T00:00:00Z"}},
    "value": 10,
    "globalDefault": True,
    "preemptionPolicy": "Never",
}


def only_invalid_object(reader: Callable[[], Any]) -> Any:
    try:
        return reader()
    except InvalidObject as error:
        text = str(error)
        assert text.isprintable() or "\n" not in text
        assert len(text) < 2000
        return None


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value inside."""
    entries = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [path, *(found for key, inner in entries for found in paths(inner, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def read_everything(value: bytes) -> None:
    only_invalid_object(lambda: decode_pod(value, namespace="default", name="web"))
    decode_occupant(value, namespace="default", name="web")
    only_invalid_object(lambda: decode_node(value, name="n1"))
    for kind in KINDS:
        only_invalid_object(lambda kind=kind: decode_surrounding(value, kind, namespace="default", name="web"))
    only_invalid_object(lambda: bind_pod(value, node_name="n", attempt="a", now="t"))
    only_invalid_object(lambda: refuse_pod(value, reason="r", message="m", now="t"))


@given(st.binary())
def test_random_bytes(value: bytes) -> None:
    read_everything(value)


@given(st.text(alphabet="{}[]:,-&*!|>'\"%@`#? \n\tab01.<~", max_size=60))
def test_text_that_looks_like_yaml(text: str) -> None:
    read_everything(text.encode())


@given(VALUES)
def test_random_values(value: Any) -> None:
    read_everything(json.dumps(value).encode())


@in_quarters(400)
@given(st.sampled_from(paths(FULL_POD)), VALUES)
def test_a_pod_with_one_field_replaced(quarter: int, path: tuple[Any, ...], new: Any) -> None:
    read_everything(raw(replaced(FULL_POD, path, new)))


@in_quarters(200)
@given(st.sampled_from(paths(FULL_POD["spec"])), VALUES)
def test_a_bound_pod_with_one_field_replaced_is_read_or_counts_still(
    quarter: int, path: tuple[Any, ...], new: Any
) -> None:
    spec = {**FULL_POD["spec"], "nodeName": "n1"}
    value = raw({**FULL_POD, "spec": replaced(spec, path, new)})
    read = only_invalid_object(lambda: decode_pod(value, namespace="default", name="web"))
    if path and read is None and b"NaN" not in value and b"Infinity" not in value:  # those are no JSON at all
        held = decode_occupant(value, namespace="default", name="web")
        assert held is not None
        assert held.node_name == "n1"


@in_quarters(200)
@given(st.sampled_from(paths(FULL_NODE)), VALUES)
def test_a_node_with_one_field_replaced(quarter: int, path: tuple[Any, ...], new: Any) -> None:
    read_everything(raw(replaced(FULL_NODE, path, new)))


@in_quarters(200)
@given(st.sampled_from(paths(FULL_SURROUNDING)), VALUES)
def test_a_surrounding_object_with_one_field_replaced(quarter: int, path: tuple[Any, ...], new: Any) -> None:
    read_everything(raw(replaced(FULL_SURROUNDING, path, new)))


@given(st.dictionaries(st.text().filter(lambda key: key not in ("metadata", "spec", "status")), VALUES, max_size=4))
def test_unknown_fields_survive_a_bind(unknown: dict[str, Any]) -> None:
    before = json.loads(json.dumps({**unknown, "metadata": {"name": "web", "extra": unknown}, "spec": {"x": unknown}}))
    try:
        after = json.loads(bind_pod(json.dumps(before).encode(), node_name="n1", attempt="w@r", now="t"))
    except InvalidObject:  # NaN and Infinity, which Python writes, are no JSON
        return

    del after["status"], after["spec"]["nodeName"], after["metadata"]["annotations"]
    assert after == before
