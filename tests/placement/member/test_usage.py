"""What a member is told to have: its nodes, what bound pods leave of them, its namespaces."""

from __future__ import annotations

import json
from typing import Any

from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue
from wharfinger.objects.documents.formats import KUBERNETES
from wharfinger.objects.rk8s.format import RK8S
from wharfinger.placement.member.usage import FOLLOWED, MemberUsage
from wharfinger.placement.spec.members import member_from_mapping
from wharfinger.testing.builders import node_manifest, pod_manifest


def kv(key: str, obj: Any, revision: int = 1) -> KeyValue:
    value = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
    return KeyValue(key, value, revision, revision)


def known() -> MemberUsage:
    usage = MemberUsage(KUBERNETES)
    usage.listed(keys.NODES, [kv(keys.node(name), node_manifest(name, cpu="4", memory="1Gi")) for name in ("n1", "n2")])
    usage.listed(keys.PODS, [kv(keys.pod("default", "a"), pod_manifest("a", cpu="1500m", nodeName="n1"))])
    usage.listed(keys.NAMESPACES, [kv(keys.NAMESPACES + "default", {})])
    return usage


def test_nodes_usage_and_namespaces_are_told_as_kubefleet_does() -> None:
    assert known().in_sync
    assert known().status() == {
        "properties": {"kubernetes-fleet.io/node-count": {"value": "2"}},
        "resourceUsage": {
            "capacity": {"cpu": "8", "memory": str(2 * 1024**3)},
            "allocatable": {"cpu": "8", "memory": str(2 * 1024**3)},
            "available": {"cpu": "6500m", "memory": str(2 * 1024**3)},
        },
        "namespaces": {"default": ""},
        "conditions": [{"type": "NamespaceCollectionSucceeded", "status": "True"}],
    }


def test_total_amounts_are_the_capacity_of_nodes() -> None:
    usage = known()
    node = node_manifest("n1", cpu="4", memory="1Gi")
    node["status"]["capacity"] = {"cpu": "4500m", "memory": "2Gi", "example.com/card": "1", "pods": "110"}
    usage.changed(keys.NODES, Event(kv(keys.node("n1"), node)))
    told = usage.status()["resourceUsage"]
    assert told["capacity"] == {"cpu": "8500m", "example.com/card": "1", "memory": str(3 * 1024**3)}
    assert told["allocatable"] == {"cpu": "8", "memory": str(2 * 1024**3)}
    node["status"]["capacity"] = {"cpu": "many"}
    usage.changed(keys.NODES, Event(kv(keys.node("n1"), node)))
    assert usage.status()["resourceUsage"]["capacity"]["cpu"] == "8"


def available(usage: MemberUsage) -> str:
    found: str = usage.status()["resourceUsage"]["available"]["cpu"]
    return found


def test_what_changes_is_counted_anew() -> None:
    usage = known()
    usage.changed(keys.PODS, Event(kv(keys.pod("default", "a"), pod_manifest("a", cpu="2", nodeName="n2"))))
    assert available(usage) == "6"
    usage.changed(keys.PODS, Event(kv(keys.pod("default", "b"), pod_manifest("b", cpu="1"))))
    assert available(usage) == "6"
    done = pod_manifest("a", cpu="2", nodeName="n2", status={"phase": "Succeeded"})
    usage.changed(keys.PODS, Event(kv(keys.pod("default", "a"), done)))
    assert available(usage) == "8"
    usage.changed(keys.NODES, Event(kv(keys.node("n2"), b""), deleted=True))
    usage.changed(keys.NAMESPACES, Event(kv(keys.NAMESPACES + "default", b""), deleted=True))
    assert available(usage) == "4"
    assert usage.status()["namespaces"] == {}


def test_namespaces_beyond_the_limit_are_left_out_and_counted() -> None:
    usage = known()
    usage.listed(keys.NAMESPACES, [kv(f"{keys.NAMESPACES}n{number:04}", {}) for number in range(5000)])
    told = usage.status()
    assert len(told["namespaces"]) == 4096
    assert told["conditions"][0]["message"] == "904 of 5000 namespaces are left out"
    member_from_mapping({"metadata": {"name": "m"}, "status": told}, 1)


def test_a_new_list_replaces_what_was_there() -> None:
    usage = known()
    usage.listed(keys.PODS, [])
    assert available(usage) == "8"


def test_what_cannot_be_read_counts_as_far_as_it_is_known() -> None:
    usage = known()
    usage.changed(keys.NODES, Event(kv(keys.node("n3"), b"{")))
    assert usage.status()["properties"] == {"kubernetes-fleet.io/node-count": {"value": "3"}}
    usage.changed(keys.PODS, Event(kv(keys.pod("default", "c"), b"{")))
    assert available(usage) == "6500m"


def test_members_of_rk8s_tell_no_namespaces() -> None:
    usage = MemberUsage(RK8S)
    for prefix in FOLLOWED:
        usage.listed(prefix, [])
    assert "namespaces" not in usage.status()
