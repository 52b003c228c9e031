"""A pod of rk8s as the pod of Kubernetes that it stands for.

It is written in snake_case, has limits instead of requests, and names the seven taints of rk8s. Names of taints stay as
they are: nodes have the same. Where a selector means something else in rk8s than in Kubernetes (`NotIn` without the
label, a term without expressions), it means what it does in Kubernetes.

`spec.gang` names the gang and its size: rk8s has no PodGroups. Topology constraints with `same_value` are the labels
that all members' nodes have one value each of; without a gang they mean nothing, as in rk8s. What is wrong makes the
pod invalid: a pod with half a gang would be placed wrongly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.errors import InvalidObject
from wharfinger.objects.documents.pods import INLINE_GROUP
from wharfinger.objects.model.gang import problem_of
from wharfinger.objects.model.node import GPU, GPU_MEMORY
from wharfinger.objects.rk8s.fields import (
    NAMESPACE,
    boolean,
    check_head,
    cpu,
    integer,
    mapping,
    mappings,
    memory,
    metadata,
    needed_text,
    one_of,
    refuse_foreign,
    sequence,
    text,
    text_map,
    texts,
)

TAINTS = (
    "NodeNotReady",
    "NodeUnreachable",
    "NodeUnschedulable",
    "NodeMemoryPressure",
    "NodeDiskPressure",
    "NodeNetworkUnavailable",
    "NodeOutOfService",
)
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_LABEL_OPERATORS = _NODE_OPERATORS[:4]
_U32 = 2**32 - 1
_FOREIGN_SPEC = {
    "nodeName": "node_name",
    "initContainers": "init_containers",
    "restartPolicy": "restart_policy",
    "nodeSelector": "",
    "schedulerName": "",
    "schedulingGates": "",
    "priority": "",
    "priorityClassName": "",
    "topologySpreadConstraints": "",
}
_FOREIGN_AFFINITY = {
    "nodeAffinity": "node_affinity",
    "podAffinity": "pod_affinity",
    "podAntiAffinity": "pod_anti_affinity",
}


def pod(obj: object, name: str = "") -> dict[str, Any]:
    """The mapping of a `v1.Pod`; `name`: its key's, if asked. Raises `InvalidObject`."""
    given = check_head(obj, "Pod", name)
    head = metadata(mapping(given, "metadata"), NAMESPACE)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": head,
        "spec": with_annotated(spec(mapping(given, "spec")), head["annotations"]),
        "status": status(given),
    }


def status(given: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping of a `v1.PodStatus`, of what a pod's document says: scheduling reads its phase alone."""
    return {"phase": one_of(mapping(given, "status"), "phase", "status.", PHASES, "Pending")}


def spec(given: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping of a `v1.PodSpec`. Raises `InvalidObject`."""
    where = "spec."
    refuse_foreign(given, _FOREIGN_SPEC, where)
    found: dict[str, Any] = {
        "containers": [_container(entry, path) for path, entry in mappings(given, "containers", where)],
        "initContainers": [_container(entry, path) for path, entry in mappings(given, "init_containers", where)],
    }
    _ask_for_gpu_memory(given, found)
    group = scheduling_group(given, where)
    if group is not None:
        found["schedulingGroup"] = group
    node_name = text(given, "node_name", where)
    if node_name:
        found["nodeName"] = node_name
    tolerations = [each for path, entry in mappings(given, "tolerations", where) for each in _toleration(entry, path)]
    if tolerations:
        found["tolerations"] = tolerations
    affinity = _affinity(mapping(given, "affinity", where))
    if affinity:
        found["affinity"] = affinity
    return found


def _container(entry: Mapping[str, Any], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": needed_text(entry, "name", where),
        "image": needed_text(entry, "image", where),
    }
    resources = mapping(entry, "resources", where)
    limits = mapping(resources, "limits", f"{where}resources.")
    if (
        mapping(resources, "requests", f"{where}resources.").keys() - limits.keys()
    ):  # it would ask for less than it needs
        refuse_foreign(resources, {"requests": "limits"}, f"{where}resources.")
    asked: dict[str, str] = {}
    path = f"{where}resources.limits."
    if (cores := text(limits, "cpu", path)) is not None:
        asked["cpu"] = cpu(cores, f"{path}cpu")
    if (size := text(limits, "memory", path)) is not None:
        asked["memory"] = memory(size, f"{path}memory")
    if cards := integer(limits, "gpu", path, low=0, high=_U32):
        asked[GPU] = str(cards)
    if asked:
        found["resources"] = {"requests": asked}
    ports = [_port(each, place) for place, each in mappings(entry, "ports", where)]
    if ports:
        found["ports"] = ports
    return found


def _ask_for_gpu_memory(given: Mapping[str, Any], found: Mapping[str, list[dict[str, Any]]]) -> None:
    """Let one container that asks for cards ask for the largest amount of all: Kubernetes sums, and rk8s does not.

    Without cards the amount means nothing, as in rk8s.
    """
    most = 0
    for field in ("containers", "init_containers"):
        for where, entry in mappings(given, field, "spec."):
            path = f"{where}resources.limits."
            size = text(mapping(mapping(entry, "resources"), "limits"), "gpu_memory", path)
            most = max(most, int(memory(size, f"{path}gpu_memory"))) if size is not None else most
    with_cards = [each for each in (*found["containers"], *found["initContainers"]) if GPU in _requests(each)]
    if most and with_cards:
        _requests(with_cards[0])[GPU_MEMORY] = str(most)


def _requests(container: Mapping[str, Any]) -> dict[str, str]:
    requests: dict[str, str] = container.get("resources", {}).get("requests", {})
    return requests


def _port(entry: Mapping[str, Any], where: str) -> dict[str, Any]:
    return {
        "containerPort": integer(entry, "containerPort", where, low=0, high=65535) or 0,
        "protocol": text(entry, "protocol", where) or "TCP",
    }


def _toleration(entry: Mapping[str, Any], where: str) -> list[dict[str, str]]:
    """What it tolerates. Without a key, a value tolerates each taint that has it: Kubernetes has no word for that."""
    key = one_of(entry, "key", where, TAINTS)
    found = {"operator": one_of(entry, "operator", where, ("Exists", "Equal"), "Equal")}
    if effect := one_of(entry, "effect", where, EFFECTS):
        found["effect"] = effect
    if found["operator"] == "Equal":
        found["value"] = text(entry, "value", where) or ""
    if key or found["operator"] == "Exists":
        return [{"key": key, **found} if key else found]
    return [{"key": each, **found} for each in TAINTS]


def _affinity(given: Mapping[str, Any]) -> dict[str, Any]:
    where = "spec.affinity."
    refuse_foreign(given, _FOREIGN_AFFINITY, where)
    found: dict[str, Any] = {}
    if nodes := _node_affinity(mapping(given, "node_affinity", where), f"{where}node_affinity."):
        found["nodeAffinity"] = nodes
    for own, theirs in (("pod_affinity", "podAffinity"), ("pod_anti_affinity", "podAntiAffinity")):
        if pods := _pod_affinity(mapping(given, own, where), f"{where}{own}."):
            found[theirs] = pods
    return found


def _node_affinity(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if given.get(_REQUIRED) is not None:
        path = f"{where}{_REQUIRED}."
        terms = mappings(mapping(given, _REQUIRED, where), "nodeSelectorTerms", path)
        found[_REQUIRED] = {"nodeSelectorTerms": [_node_term(entry, place) for place, entry in terms]}
    preferred = mappings(mapping(given, _PREFERRED, where), "terms", f"{where}{_PREFERRED}.")
    if preferred:
        found[_PREFERRED] = [
            {
                "weight": _weight(entry, path),
                "preference": _node_term(mapping(entry, "preference", path), f"{path}preference."),
            }
            for path, entry in preferred
        ]
    return found


def _weight(entry: Mapping[str, Any], where: str) -> int:
    weight = integer(entry, "weight", where, low=0, high=100)
    if weight is None:
        raise InvalidObject(f"{where}weight is missing")
    return weight


def _node_term(entry: Mapping[str, Any], where: str) -> dict[str, Any]:
    if entry.get("matchExpressions") is None:
        raise InvalidObject(f"{where}matchExpressions is missing")
    return {"matchExpressions": _expressions(entry, where, _NODE_OPERATORS)}


def _expressions(entry: Mapping[str, Any], where: str, operators: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {
            "key": needed_text(each, "key", path),
            "operator": one_of(each, "operator", path, operators),
            "values": texts(each, "values", path),
        }
        for path, each in mappings(entry, "matchExpressions", where)
    ]


def _pod_affinity(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    required = [_pod_term(entry, path, needed=True) for path, entry in mappings(given, _REQUIRED, where)]
    if required:
        found[_REQUIRED] = required
    preferred = [
        {
            "weight": _weight(entry, path),
            "podAffinityTerm": _pod_term(
                mapping(entry, "podAffinityTerm", path), f"{path}podAffinityTerm.", needed=False
            ),
        }
        for path, entry in mappings(given, _PREFERRED, where)
    ]
    if preferred:
        found[_PREFERRED] = preferred
    return found


def _pod_term(entry: Mapping[str, Any], where: str, *, needed: bool) -> dict[str, Any]:
    """A term about other pods. Without a selector a needed one means all pods, and another one none; rk8s drops
    `namespaces`, since its keys have none.
    """
    found: dict[str, Any] = {"topologyKey": needed_text(entry, "topologyKey", where)}
    sequence(entry, "namespaces", where)
    if entry.get("labelSelector") is not None:
        selector, path = mapping(entry, "labelSelector", where), f"{where}labelSelector."
        found["labelSelector"] = {
            "matchLabels": text_map(selector, "matchLabels", path),
            "matchExpressions": _expressions(selector, path, _LABEL_OPERATORS),
        }
    elif needed:
        found["labelSelector"] = {}
    return found


_UINT32 = 2**32 - 1


def scheduling_group(spec: Mapping[str, Any], where: str) -> dict[str, Any] | None:
    """The mapping of a `v1.PodSchedulingGroup`; None for a pod of its own. `where`: the path of the spec."""
    keys = _keys(spec, where)
    if spec.get("gang") is None:
        return None
    gang, path = mapping(spec, "gang", where), f"{where}gang."
    name = needed_text(gang, "id", path)
    size = integer(gang, "size", path, low=0, high=_UINT32)
    if size is None:
        raise InvalidObject(f"{path}size is missing")
    if not name:
        raise InvalidObject(f"{path}id is empty")
    problem = problem_of(name, None, keys)
    if problem:
        raise InvalidObject(f"spec.gang: {problem}")
    return {"podGroupName": name, INLINE_GROUP: {"minCount": size, "topologyKeys": keys}}


def _keys(spec: Mapping[str, Any], where: str) -> list[str]:
    """Keys of the constraints that ask for one value."""
    found = set()
    for path, entry in mappings(spec, "topology_constraints", where):
        key = needed_text(entry, "topology_key", path)
        if boolean(entry, "same_value", path):
            found.add(key)
    return sorted(found)


PRIORITY = "wharfinger.dev/priority"
"""A whole number: more important pods come first."""
GATES = "wharfinger.dev/scheduling-gates"
"""Names, with commas between: the pod waits until the annotation is gone, or empty."""
_DIGITS = 10


def with_annotated(spec: Mapping[str, Any], annotations: Mapping[str, str]) -> Mapping[str, Any]:
    """The mapping of a `v1.PodSpec` with what the pod's annotations ask for. Raises `InvalidObject`."""
    if PRIORITY not in annotations and GATES not in annotations:
        return spec
    found = dict(spec)
    if PRIORITY in annotations:
        found["priority"] = _number(annotations[PRIORITY])
    gates = [name.strip() for name in annotations.get(GATES, "").split(",") if name.strip()]
    if gates:
        found["schedulingGates"] = [{"name": name} for name in gates]
    return found


def _number(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS and abs(int(text)) < 2**31):
        raise InvalidObject(f"metadata.annotations[{PRIORITY!r}] {text[:40]!r} is no whole number of 32 bits")
    return int(text)
