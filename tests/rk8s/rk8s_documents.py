"""Documents of rk8s as its own writer lays them out: every field, null where there is none, enums with tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

CREATED = "2026-04-28T12:00:00.123456789Z"


@dataclass(frozen=True)
class Tagged:
    """An enum's variant with the data it carries: `!Running {...}`."""

    variant: str
    fields: Mapping[str, Any]


class _Writer(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """serde_yaml's layout: fields in their order, lists not indented."""


class _Reader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Tests read each pod many times; libyaml does it in a tenth of the time."""


def _tagged(reader: _Reader, suffix: str, node: yaml.Node) -> Tagged:
    if isinstance(node, yaml.ScalarNode):
        return Tagged(suffix, {"": node.value})
    assert isinstance(node, yaml.MappingNode)
    return Tagged(suffix, reader.construct_mapping(node, deep=True))


_Reader.add_multi_constructor("!", _tagged)

_Writer.add_representer(
    Tagged, lambda writer, value: writer.represent_mapping(f"!{value.variant}", dict(value.fields), flow_style=False)
)
_Writer.add_representer(type(None), lambda writer, _: writer.represent_scalar("tag:yaml.org,2002:null", "null"))


def document(obj: Mapping[str, Any], **layout: Any) -> bytes:
    """The stored value of a document; `layout`: other options of the YAML library."""
    chosen = {"sort_keys": False, "width": 10_000, "allow_unicode": True, **layout}
    return yaml.dump(dict(obj), Dumper=_Writer, **chosen).encode()


def read(value: bytes) -> dict[str, Any]:
    """A stored document as plain values; tags are kept."""
    found = yaml.load(value, Loader=_Reader)
    assert isinstance(found, dict)
    return found


def metadata(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: str = "",
    uid: str = "5f0c2f6e-7d7b-4f7a-9a56-0d5f3f0a9a11",
) -> dict[str, Any]:
    """`metadata`; `owner`: the name of the ReplicaSet that made it."""
    reference = {
        "apiVersion": "v1",
        "kind": "ReplicaSet",
        "name": owner,
        "uid": "2f0c2f6e-7d7b-4f7a-9a56-0d5f3f0a9a11",
        "controller": True,
        "block_owner_deletion": True,
    }
    return {
        "name": name,
        "namespace": "default",
        "uid": uid,
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
        "ownerReferences": [reference] if owner else None,
        "creationTimestamp": CREATED,
        "deletionTimestamp": None,
        "finalizers": None,
        "generation": 0,
    }


def pod(
    name: str,
    cpu: str = "500m",
    memory: str = "512Mi",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    priority: int | None = None,
    gates: Sequence[str] = (),
    node_name: str | None = None,
    tolerations: Sequence[Mapping[str, Any]] = (),
    affinity: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    owner: str = "",
    phase: str = "Pending",
    running: bool = False,
    **spec: Any,
) -> dict[str, Any]:
    """A pod. `limits`: more of them than CPU and memory; `spec`: more of its fields (`gang`)."""
    asked = {**(annotations or {})}
    if priority is not None:
        asked["wharfinger.dev/priority"] = str(priority)
    if gates:
        asked["wharfinger.dev/scheduling-gates"] = ",".join(gates)
    container = {
        "name": "main",
        "image": "busybox:latest",
        "ports": [{"containerPort": 80, "protocol": "TCP", "hostPort": 0, "hostIP": ""}],
        "args": ["sh"],
        "tty": False,
        "resources": {"limits": {"cpu": cpu, "memory": memory, **(limits or {})}},
        "livenessProbe": None,
        "readinessProbe": None,
        "startupProbe": None,
        "securityContext": None,
        "env": None,
        "volumeMounts": None,
        "command": None,
        "workingDir": None,
    }
    started = Tagged("Running", {"started_at": CREATED})
    states = [{"name": "main", "state": started, "last_termination_state": None, "ready": True, "restart_count": 0}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(name, labels=labels, annotations=asked, owner=owner),
        "spec": {
            "node_name": node_name,
            "containers": [container],
            "init_containers": [],
            "tolerations": [dict(each) for each in tolerations],
            "affinity": dict(affinity) if affinity is not None else None,
            "restart_policy": "Never",
            "volumes": [],
            **spec,
        },
        "status": {
            "podIP": None,
            "containerStatuses": states if running else [],
            "phase": "Running" if running else phase,
            "conditions": None,
            "message": None,
            "reason": None,
            "start_time": None,
        },
    }


def node(
    name: str,
    cpu: str = "4",
    memory: str = "8Gi",
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    pods: str = "110",
    ready: str = "True",
) -> dict[str, Any]:
    """A node."""
    amounts = {"cpu": cpu, "memory": memory, "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(name, labels=labels),
        "spec": {"podCIDR": "10.244.1.0/24", "taints": [dict(each) for each in taints]},
        "status": {
            "capacity": dict(amounts),
            "allocatable": dict(amounts),
            "addresses": [
                {"type": "InternalIP", "address": "10.0.0.1"},
                {"type": "Hostname", "address": name},
            ],
            "conditions": [{"type": "Ready", "status": ready, "lastHeartbeatTime": "2026-04-28T12:00:05+00:00"}],
        },
    }


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> dict[str, str]:
    """A taint of a node."""
    return {"key": key, "value": value, "effect": effect}


def toleration(key: str, value: str = "", effect: str = "NoSchedule", operator: str = "Equal") -> dict[str, str]:
    """A toleration of a pod."""
    return {"key": key, "operator": operator, "effect": effect, "value": value}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    """One expression of a selector."""
    return {"key": key, "operator": operator, "values": list(values)}


def node_affinity(
    *terms: Sequence[Mapping[str, Any]], preferred: Mapping[int, Sequence[Mapping[str, Any]]] | None = None
) -> dict[str, Any]:
    """`affinity` with required terms, each a list of expressions; `preferred`: weight -> expressions."""
    found: dict[str, Any] = {REQUIRED: None, PREFERRED: None}
    if terms:
        found[REQUIRED] = {"nodeSelectorTerms": [{"matchExpressions": list(term)} for term in terms]}
    if preferred:
        found[PREFERRED] = {
            "terms": [
                {"weight": weight, "preference": {"matchExpressions": list(term)}} for weight, term in preferred.items()
            ]
        }
    return {"node_affinity": found, "pod_affinity": None, "pod_anti_affinity": None}


def pod_term(topology_key: str, *expressions: Mapping[str, Any], **labels: str) -> dict[str, Any]:
    """A term of pod affinity: pods with these labels."""
    selector = {"matchLabels": labels, "matchExpressions": list(expressions)}
    return {"labelSelector": selector, "topologyKey": topology_key, "namespaces": None}


def pod_affinity(
    *required: Mapping[str, Any],
    anti: Sequence[Mapping[str, Any]] = (),
    preferred: Mapping[int, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """`affinity` with required terms to be near and away from pods; `preferred`: weight -> term."""

    def part(terms: Sequence[Mapping[str, Any]], wished: Mapping[int, Mapping[str, Any]]) -> dict[str, Any] | None:
        weighted = [{"weight": weight, "podAffinityTerm": dict(term)} for weight, term in wished.items()]
        if not terms and not weighted:
            return None
        return {REQUIRED: [dict(term) for term in terms] or None, PREFERRED: weighted or None}

    return {"node_affinity": None, "pod_affinity": part(required, preferred or {}), "pod_anti_affinity": part(anti, {})}
