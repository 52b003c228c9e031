"""What a bound pod counts in every phase of a resize in place equals Kubernetes' rules, also of its copy."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.properties.request_scalar import counted
from wharfinger.objects.documents.copies import copy_of
from wharfinger.objects.documents.decode import decode_pod, pod_from_mapping
from wharfinger.objects.model.pod import Pod

CPU = st.sampled_from(["0m", "100m", "250m", "1000m", "2000m"])
MEMORY = st.sampled_from(["0", "1048576", "209715200", "1073741824"])
CARDS = st.sampled_from(["1", "2"])
REQUESTS = st.fixed_dictionaries({}, optional={"cpu": CPU, "memory": MEMORY, "example.com/card": CARDS})
LEVEL = st.fixed_dictionaries({}, optional={"cpu": CPU, "memory": MEMORY})
PENDING = st.sampled_from(["Infeasible", "Deferred"]).map(lambda reason: {"type": "PodResizePending", "reason": reason})
CONDITIONS = st.lists(st.one_of(PENDING, st.just({"type": "PodResizeInProgress", "status": "True"})), max_size=2)


@st.composite
def resizable(draw: st.DrawFn, name: str, **fields: str) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """A container, and what its status reports: nothing, no resources, what the spec says, or something else."""
    asked = draw(REQUESTS)
    container = {"name": name, "image": "i", "resources": {"requests": asked}, **fields}
    reported = draw(st.sampled_from(["absent", "silent", "as asked", "other"]))
    if reported == "absent":
        return container, None
    status: dict[str, Any] = {"name": name, "ready": True, "restartCount": 0}
    if reported == "as asked":
        status |= {"allocatedResources": asked, "resources": {"requests": asked, "limits": {"cpu": "9000m"}}}
    elif reported == "other":
        allocated, actual = draw(st.one_of(st.none(), REQUESTS)), draw(st.one_of(st.none(), REQUESTS))
        status |= {} if allocated is None else {"allocatedResources": allocated}
        status |= {"resources": {} if actual is None else {"requests": actual}}
    return container, status


@st.composite
def bound_pods(draw: st.DrawFn) -> dict[str, Any]:
    """A bound pod with containers, sidecars, init containers and pod-level requests, at some moment of a resize."""
    containers = [draw(resizable(f"c{number}")) for number in range(draw(st.integers(1, 3)))]
    starting = []
    for number in range(draw(st.integers(0, 3))):
        policy = {"restartPolicy": "Always"} if draw(st.booleans()) else {}
        starting.append(draw(resizable(f"i{number}", **policy)))
    spec: dict[str, Any] = {"nodeName": "n1", "containers": [one for one, _ in containers]}
    spec |= {"initContainers": [one for one, _ in starting]} if starting else {}
    spec |= {"overhead": {"cpu": "50m", "memory": "1024"}} if draw(st.booleans()) else {}
    status: dict[str, Any] = {"phase": "Running", "conditions": draw(CONDITIONS)}
    status["containerStatuses"] = [one for _, one in containers if one is not None]
    status["initContainerStatuses"] = [one for _, one in starting if one is not None]
    if draw(st.booleans()):
        spec["resources"] = {"requests": draw(LEVEL)}
        status |= draw(st.fixed_dictionaries({}, optional={"allocatedResources": LEVEL}))
        status |= draw(
            st.fixed_dictionaries({}, optional={"resources": st.fixed_dictionaries({}, optional={"requests": LEVEL})})
        )
    metadata = {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": "7"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def use(pod: Pod) -> tuple[dict[str, int], int, int]:
    return dict(pod.requests), pod.scoring_cpu, pod.scoring_memory


@settings(max_examples=150)
@given(bound_pods())
def test_a_bound_pod_counts_what_kubernetes_rules_say(manifest: dict[str, Any]) -> None:
    assert use(pod_from_mapping(manifest)) == counted(manifest)


@settings(max_examples=150)
@given(bound_pods())
def test_its_copy_counts_the_same(manifest: dict[str, Any]) -> None:
    assert decode_pod(copy_of(manifest, "pods")) == decode_pod(json.dumps(manifest).encode())


@settings(max_examples=50)
@given(bound_pods())
def test_placed_anew_it_asks_for_its_specification(manifest: dict[str, Any]) -> None:
    spec = {name: value for name, value in manifest["spec"].items() if name != "nodeName"}
    pending = pod_from_mapping({**manifest, "spec": spec, "status": {}})

    assert use(pod_from_mapping(manifest).unbound()) == use(pending)
    assert use(pod_from_mapping({**manifest, "spec": spec})) == use(pending)
    assert use(pending.on("n1")) == counted({**manifest, "status": {}})
