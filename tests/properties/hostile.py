"""What no sane client stores, in every key space: seeded, so that a find can be seen again.

Structured but wrong objects (any field of a complete one replaced by something nasty, several at once),
valid ones of an absurd size, and raw bytes; under the right keys, under keys of too few, too many or empty
parts, and under keys that are no text. Used on a store in memory and on a real etcd.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from tests.objects.documents.test_fuzz import FULL_NODE, FULL_POD, FULL_SURROUNDING, paths, replaced
from wharfinger.etcd import keys

NASTY: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**40, 0.5, -0.0, 1e308, "", " ", "\0", "-1",
    "1e999", "NaN", "9" * 5000, "9" * 30 + "Ei", "-5Gi", "1.5.5", "0x10", "²", "ﬁ", "\ud800", "\u202e", "a" * 5000,
    "e" + "\u0301" * 500, "../../etc", "a/b", "*", "default", "0001-01-01T00:00:00Z", "9999-12-31T23:59:60Z",
    "2026-02-30T00:00:00Z", "-2026-01-01T00:00:00+99:99", [], {}, [None], [[]], {"": ""}, [{}], {"a": {"b": {"c": []}}},
    ["a"] * 300, {f"key{number}": "x" for number in range(300)}, "In", "NotIn", "Gt", "Lt", "Exists", "Bogus",
    [{"key": "a", "operator": "Bogus", "values": ["b"]}], [{"key": "a", "operator": "Gt", "values": ["x", "y"]}],
    {"cpu": "-1"}, {"cpu": "much"}, {"cpu": 1e300}, {"cpu": "9" * 400}, {"pods": "1e18"}, {"": "1"}, {"x" * 300: "1"},
)  # fmt: skip
"""Values for a field of any type."""

SELDOM: tuple[tuple[str, ...], ...] = (
    ("metadata", "deletionTimestamp"),
    ("metadata", "creationTimestamp"),
    ("metadata", "labels"),
    ("metadata", "ownerReferences"),
    ("metadata", "labels", "pod-group.scheduling.sigs.k8s.io/min-available"),
    ("metadata", "labels", "wharfinger.dev/tenant"),
    ("metadata", "annotations", "wharfinger.dev/attempt"),
    ("spec", "schedulerName"),
    ("spec", "nodeName"),
    ("spec", "priority"),
    ("spec", "priorityClassName"),
    ("spec", "preemptionPolicy"),
    ("status", "nominatedNodeName"),
    ("status", "phase"),
)
"""Fields that the complete objects below leave out, for most of what they mean would hide the rest."""
COMPLETE = {
    keys.PODS: FULL_POD,
    keys.REQUEUED: FULL_POD,
    keys.NODES: FULL_NODE,
    **dict.fromkeys(keys.SURROUNDINGS, FULL_SURROUNDING),
    keys.ATTEMPTS: {
        "attempt": 1, "reason": "Unschedulable", "plugins": ["NodeResourcesFit"], "revision": 1, "message": "m",
        "nominated_node": "n", "victims": ["default/v"], "victim_revisions": [1], "workflow_id": "w", "run_id": "r",
        "create_revision": 1, "time": "t",
    },
    keys.BOUND_BY: {"attempt": "w@r", "node": "n", "create_revision": 1, "time": "t"},
    keys.INSTANCES: {"state": "ready", "host": "h", "pid": 1, "health": "", "revision": "", "dispatches": True},
    keys.GRANTS: {
        "revision": 1, "host": "h", "want": "run", "identity": 1, "settle": 0.5, "token": "t",
    },
    keys.CONFIG: {"weights": {"NodeResourcesFit": 2}, "level": "info", "cohort_from": 24},
    keys.INSTALLATION: {"cluster": "c", "temporal_namespace": "n", "format": "kubernetes", "upstream": "u", "id": "i"},
    keys.PROMISES: {
        "uid": "u", "revision": 7, "node": "n", "attempt": "w@r", "since": "2026-03-01T12:00:00Z", "ready": False,
        "volumes": [["claim", "volume"]], "patience": 600.0, "asked": True, "withdrawn": "w", "told": "t",
    },
    keys.HOLDS: {"node": "n", "create_revision": 1, "attempt": "w@r", "time": "2026-03-01T12:00:00Z"},
    keys.SOFTWARE: {"build": "b", "packages": {"wharfinger": "1"}},
    keys.IMPORTED: {"revisions": {"pods": 7}, "generation": 1, "time": "2026-03-01T12:00:00Z"},
    keys.ACTIVE: {"holder": "h", "time": "2026-03-01T12:00:00Z"},
    **{
        key: {"a": {"b": [1]}}
        for key in (keys.BINDINGS, keys.BOUND, keys.TERMS, keys.VOLUMES, keys.TENANTS, keys.PROFILES)
    },
}  # fmt: skip
"""A complete object by the prefix it lies under."""
PARTS = {
    keys.PODS: 2, keys.NODES: 1, keys.ATTEMPTS: 2, keys.INSTANCES: 3, keys.BINDINGS: 1, keys.BOUND: 1, keys.TERMS: 1,
    keys.BOUND_BY: 2, keys.GRANTS: 3, keys.CONFIG: 2, keys.REQUEUED: 3, keys.PROMISES: 2, keys.HOLDS: 2,
    keys.VOLUMES: 1, keys.IMPORTED: 0, keys.SOFTWARE: 1, keys.ACTIVE: 0,
    keys.TENANTS: 1, keys.PROFILES: 1, keys.INSTALLATION: 0,
    **{prefix: 1 if prefix in keys.CLUSTER_WIDE else 2 for prefix in keys.SURROUNDINGS},
}  # fmt: skip
RAW = (
    b"", b"\0", b"null", b"[]", b"{}", b'""', b"{", b"\xff\xfe", b"NaN", b"1e999", b"9" * 5000, b"[" * 100_000,
    b'{"a":' * 50_000, b"- " * 5000, b"&a [*a]", b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]", b"---\n---\n",
    b'{"metadata":{},"metadata":{}}', b"!!python/object:os.system {}", b"%YAML 9.9\n---\n{}", b"\xef\xbb\xbf{}",
)  # fmt: skip


def value(rng: random.Random, prefix: str, number: int) -> bytes:
    """Something to store under a prefix: a complete object with one to three fields replaced, or raw bytes."""
    dice = rng.random()
    if dice < 0.1:
        return rng.choice(RAW)
    if dice < 0.2:
        return rng.randbytes(rng.randrange(200))
    obj: Any = named(COMPLETE[prefix], prefix, number)
    if "metadata" in obj and rng.random() < 0.3:
        obj = _added(obj, rng.choice(SELDOM), rng.choice(NASTY))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        obj = replaced(obj, rng.choice(paths(obj)), rng.choice(NASTY))
    text = json.dumps(obj, default=str)
    if dice < 0.3:  # cut off, or a byte of it flipped
        raw = bytearray(text.encode())
        if dice < 0.25:
            del raw[rng.randrange(len(raw)) :]
        elif raw:
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        return bytes(raw)
    return text.encode()


def _added(obj: dict[str, Any], path: tuple[str, ...], new: Any) -> dict[str, Any]:
    step, *rest = path
    inner = obj.get(step)
    return {**obj, step: _added(inner if isinstance(inner, dict) else {}, tuple(rest), new) if rest else new}


def well_formed_key(prefix: str, number: int) -> str:
    """The key of the object that `named` names."""
    return prefix + "/".join([f"hostile{number}"] * PARTS[prefix])


def named(obj: dict[str, Any], prefix: str, number: int) -> dict[str, Any]:
    """The object with the name that its key gives it: else most would be refused for that alone."""
    if "metadata" not in obj:
        return obj
    names = {"name": f"hostile{number}"} | ({"namespace": f"hostile{number}"} if PARTS[prefix] > 1 else {})
    return {**obj, "metadata": {**obj["metadata"], "uid": f"uid{number}", **names}}


def key(rng: random.Random, prefix: str, number: int) -> str:
    """A key under a prefix: mostly well formed, else of wrong parts, no text, or very long."""
    names = [f"hostile{number}"] * PARTS[prefix]
    dice = rng.random()
    if dice < 0.8 or not names:
        return prefix + "/".join(names) + ("" if names else rng.choice(("", "/", "/x", "x")) * bool(number % 2))
    at = rng.randrange(len(names))
    odd = rng.choice(("", "\udcff\udcfe", "\n", "ü" * 30, ".", "..", "*", "%00", "x" * 20_000, "\u202e", " "))
    if dice < 0.9:
        names[at] = f"{odd}{number}" if odd else ""
    elif dice < 0.95:
        names.insert(at, odd)
    else:
        del names[at]
    return prefix + "/".join(names)


def stored(rng: random.Random, count: int) -> Iterator[tuple[str, bytes]]:
    """Keys and values, spread over all key spaces; half of them pods and nodes."""
    prefixes = sorted(COMPLETE)
    for number in range(count):
        dice = rng.random()
        prefix = keys.PODS if dice < 0.35 else keys.NODES if dice < 0.5 else rng.choice(prefixes)
        yield key(rng, prefix, number), value(rng, prefix, number)


def huge(rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """Objects that are as large as etcd takes: each by another of its parts; many of them are valid."""
    number = rng.randrange(1000)
    many = range(4000)
    labels = {f"label{one}": "x" * 200 for one in many}
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}] * 20}}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [term] * 1000}
    spread = [{"maxSkew": 1, "topologyKey": f"key{one}", "whenUnsatisfiable": "DoNotSchedule"} for one in many]
    containers = [{"name": f"c{one}", "resources": {"requests": {f"example.com/r{one}": "1"}}} for one in many]
    requests = {f"example.com/r{one}": "1" for one in many}
    ports = [{"name": "c", "ports": [{"hostPort": one + 1, "containerPort": 1} for one in many]}]
    node_terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}] * 4000}
    pods: dict[str, dict[str, Any]] = {
        "labels": {"metadata": {"labels": labels}},
        "morelabels": {"metadata": {"labels": {f"l{one}": "" for one in range(10_000)}}},
        "podaffinity": {"spec": {"affinity": {"podAffinity": affinity}}},
        "podantiaffinity": {"spec": {"affinity": {"podAntiAffinity": affinity}}},
        "nodeaffinity": {
            "spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": node_terms}}}
        },
        "spread": {"spec": {"topologySpreadConstraints": spread}},
        "containers": {"spec": {"containers": containers}},
        "requests": {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}},
        "ports": {"spec": {"containers": ports}},
        "tolerations": {"spec": {"tolerations": [{"key": f"k{one}", "operator": "Exists"} for one in many]}},
        "selector": {"spec": {"nodeSelector": {f"k{one}": "v" for one in many}}},
        "gates": {"spec": {"schedulingGates": [{"name": f"g{one}"} for one in many]}},
        "padding": {"metadata": {"annotations": {"x": "y" * 1_400_000}}},
        "images": {"spec": {"containers": [{"name": f"c{one}", "image": f"i{one}"} for one in many]}},
        "priority": {"spec": {"priority": 2**31 - 1, "containers": [{"name": "c"}]}},
    }
    for name, more in pods.items():
        obj = {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": f"huge-{name}{number}", "namespace": "default", **more.get("metadata", {})},
            "spec": {"containers": [{"name": "c"}], **more.get("spec", {})},
        }  # fmt: skip
        yield f"{keys.PODS}default/huge-{name}{number}", json.dumps(obj).encode()
    taints = [{"key": f"k{one}", "value": "v", "effect": "PreferNoSchedule"} for one in many]
    images = [{"names": [f"i{one}:latest"], "sizeBytes": 1} for one in many]
    usual = {"cpu": "1", "pods": "0", "memory": "1Gi"}
    nodes: dict[str, dict[str, Any]] = {
        "labels": {"metadata": {"labels": labels}},
        "taints": {"spec": {"taints": taints}},
        "images": {"status": {"images": images, "allocatable": usual}},
        "resources": {"status": {"allocatable": {**requests, **usual}}},
    }
    for name, more in nodes.items():
        obj = {
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": f"huge-{name}{number}", **more.get("metadata", {})},
            "spec": more.get("spec", {}), "status": more.get("status", {"allocatable": usual}),
        }  # fmt: skip
        yield f"{keys.NODES}huge-{name}{number}", json.dumps(obj).encode()
