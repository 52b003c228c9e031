"""Gangs on real servers: whole or not at all at every revision of etcd; held, woken, confined, made room for."""

from __future__ import annotations

import collections
import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import StartWorker
from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import NODES, PODS, Gateway, audit, bound_pods, condition, node, pod

pytestmark = pytest.mark.timeout(240)

LABEL = "pod-group.scheduling.sigs.k8s.io/"
POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
ZONE = "topology.kubernetes.io/zone"
PODGROUPS = "/registry/podgroups/"


def member(name: str, gang: str, least: int, cpu: str = "1", **more: Any) -> dict[str, Any]:
    labels = {LABEL + "name": gang, LABEL + "min-available": str(least)}
    return pod(name, cpu=cpu, labels=labels, **more)


def put_gang(etcd: Gateway, gang: str, members: int, **more: Any) -> list[str]:
    names = [f"{gang}-{number}" for number in range(members)]
    for name in names:
        etcd.put(f"{PODS}default/{name}", member(name, gang, members, **more))
    return names


def gangs_in_history(etcd: Gateway, first: int) -> tuple[list[str], dict[str, int]]:
    """Revisions at which a gang was bound in part, and how many members of each are bound in the end."""
    gang_of: dict[str, tuple[str, int]] = {}
    bound: dict[str, set[str]] = collections.defaultdict(set)
    broken: list[str] = []
    at, touched = 0, set[str]()

    def judge() -> None:
        for gang in touched:
            least = max((number for name, number in gang_of.values() if name == gang), default=0)
            if 0 < len(bound[gang]) < least:
                broken.append(f"{gang} at {at}: {len(bound[gang])} of {least}")

    for revision, key, raw in etcd.history(PODS, first, etcd.revision()):
        if revision != at:
            judge()
            at, touched = revision, set()
        if raw is None:
            continue
        obj = json.loads(raw)
        labels = obj["metadata"].get("labels", {})
        gang = labels.get(LABEL + "name") or labels.get(POD_GROUP_LABEL)
        if gang is None:
            continue
        gang_of[key] = gang, int(labels[LABEL + "min-available"])
        touched.add(gang)
        (bound[gang].add if obj["spec"].get("nodeName") else bound[gang].discard)(key)
    judge()
    return broken, {gang: len(members) for gang, members in bound.items()}


def waits_with(etcd: Gateway, name: str, words: str) -> bool:
    return words in condition(etcd.get(f"{PODS}default/{name}")).get("message", "")


def test_50_gangs_of_8_compete_for_room_for_20_and_bind_whole_or_not(cluster: DevTree) -> None:
    etcd = cluster.etcd
    first = etcd.revision() + 1
    for number in range(40):
        etcd.put(f"{NODES}n{number:02}", node(f"n{number:02}", cpu="4"))
    for number in range(8):
        for gang in range(50):
            name = f"g{gang:02}-{number}"
            etcd.put(f"{PODS}default/{name}", member(name, f"g{gang:02}", 8))

    wait_until(lambda: len(bound_pods(etcd)) == 160, 90, "room for 20 gangs taken")
    placed = bound_pods(etcd)
    waiting = [f"g{gang:02}-{n}" for gang in range(50) for n in range(8) if f"g{gang:02}-{n}" not in placed]
    wait_until(
        lambda: all(waits_with(etcd, name, "gang needs 8 members placed together, 0 fit.") for name in waiting),
        60,
        "all others say why they wait",
    )

    broken, bound = gangs_in_history(etcd, first)
    assert broken == []
    assert collections.Counter(bound.values()) == {8: 20, 0: 30}
    verdict = audit(etcd, first)
    assert (verdict.doubled, verdict.overcommitted) == ([], [])


def test_workers_and_servers_that_die_leave_no_gang_in_part_nor_forgotten(cluster: DevTree) -> None:
    etcd = cluster.etcd
    first = etcd.revision() + 1
    for number in range(20):
        etcd.put(f"{NODES}n{number:02}", node(f"n{number:02}", cpu="4"))
    for gang in range(20):
        put_gang(etcd, f"k{gang:02}", 8)
        if gang in {4, 12}:
            cluster.kill("workers", gang // 12)
        if gang == 8:
            cluster.kill("temporal")
    wait_until(lambda: len(bound_pods(etcd)) == 80, 120, "room for 10 gangs taken")
    etcd.put(f"{NODES}more", node("more", cpu="80"))
    wait_until(lambda: len(bound_pods(etcd)) == 160, 120, "and then all")

    assert gangs_in_history(etcd, first) == ([], {f"k{gang:02}": 8 for gang in range(20)})
    verdict = audit(etcd, first)
    assert (verdict.doubled, verdict.overcommitted) == ([], [])


def test_a_gang_is_held_until_its_pod_group_and_last_member_exist(cluster: DevTree, tmp_path: Path) -> None:
    """Of the scheduler-plugins. The label min-available is there for `gangs_in_history` only."""
    etcd = cluster.etcd
    labels = {POD_GROUP_LABEL: "m", LABEL + "min-available": "8"}
    etcd.put(f"{NODES}n", node("n", cpu="16"))
    for number in range(7):
        etcd.put(f"{PODS}default/m-{number}", pod(f"m-{number}", labels=labels))
    etcd.put(f"{PODS}default/other", pod("other"))
    wait_until(lambda: bound_pods(etcd), 20, "a pod of its own")

    assert set(bound_pods(etcd)) == {"other"}
    assert "PodGroup default/m does not exist" in cluster.cli("pending").stdout

    group = tmp_path / "group.yaml"
    group.write_text(
        "{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: m}, spec: {minMember: 8}}"
    )
    cluster.cli("apply", "-f", str(group))
    assert "default" in cluster.cli("get", "podgroups").stdout
    wait_until(lambda: "PodGroup: 7 of 8 members exist" in cluster.cli("pending").stdout, 20, "the last one is missing")
    assert "7 of 8 members exist" in cluster.cli("describe", "pod", "m-0").stdout

    revision = etcd.put(f"{PODS}default/m-7", pod("m-7", labels=labels))
    wait_until(lambda: len(bound_pods(etcd)) == 9, 20, "all of them")
    broken, _ = gangs_in_history(etcd, revision)
    assert broken == []
    told = cluster.cli("explain", "pod", "m-3").stdout
    assert "cohort/default/m" in told
    cluster.cli("delete", "podgroup", "m")


def test_all_members_go_to_one_domain_and_to_another_when_the_first_fails(cluster: DevTree) -> None:
    etcd = cluster.etcd
    for name, zone, cpu in (("a", "x", "3"), ("b", "y", "2"), ("c", "y", "2"), ("d", "", "16")):
        obj = node(name, cpu=cpu)
        if zone:
            obj["metadata"]["labels"][ZONE] = zone
        etcd.put(f"{NODES}{name}", obj)
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "z", "namespace": "default"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 4}},
            "schedulingConstraints": {"topology": [{"key": ZONE}]},
        },
    }
    assert cluster.cli("apply", "-f", "-", stdin=json.dumps(group)).returncode == 0
    for number in range(4):
        etcd.put(f"{PODS}default/z-{number}", pod(f"z-{number}", cpu="1", schedulingGroup={"podGroupName": "z"}))

    wait_until(lambda: len(bound_pods(etcd)) == 4, 20, "the gang bound")
    assert set(bound_pods(etcd).values()) == {"b", "c"}
    cluster.cli("delete", "podgroup", "z")


def test_a_gang_that_lacked_a_domain_hears_of_room_in_its_first_one(cluster: DevTree) -> None:
    """Steps: no node has the key; one gets it, without room enough; a pod on that node ends."""
    etcd = cluster.etcd
    plain = node("n", cpu="3")
    etcd.put(f"{NODES}n", plain)
    etcd.put(f"{NODES}m", node("m", cpu="1"))
    etcd.put(f"{PODS}default/other", pod("other", cpu="1", nodeName="n"))
    group = {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "f", "namespace": "default"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 3}},
            "schedulingConstraints": {"topology": [{"key": ZONE}]},
        },
    }
    cluster.cli("apply", "-f", "-", stdin=json.dumps(group))
    names = [f"f-{number}" for number in range(3)]
    for name in names:
        etcd.put(f"{PODS}default/{name}", pod(name, cpu="1", schedulingGroup={"podGroupName": "f"}))
    lacks = f"no node has the label {ZONE}."
    wait_until(lambda: all(waits_with(etcd, name, lacks) for name in names), 20, "no domain")

    plain["metadata"]["labels"][ZONE] = "x"
    etcd.put(f"{NODES}n", plain)
    short = f"gang needs 3 members placed together in one domain of {ZONE}, 2 fit."
    wait_until(lambda: all(waits_with(etcd, name, short) for name in names), 30, "the reason is another")
    etcd.delete(f"{PODS}default/other")
    wait_until(lambda: set(names) <= set(bound_pods(etcd)), 30, "bound where the pod has been")
    cluster.cli("delete", "podgroup", "f")


def test_a_gang_that_waits_is_woken_as_one_when_all_of_it_fits(cluster: DevTree) -> None:
    etcd = cluster.etcd
    etcd.put(f"{NODES}n", node("n", cpu="3"))
    first = etcd.revision() + 1
    names = put_gang(etcd, "w", 8)
    words = "gang needs 8 members placed together, 3 fit."
    wait_until(lambda: all(waits_with(etcd, name, words) for name in names), 20, "refused as one")

    etcd.put(f"{NODES}m", node("m", cpu="4"))
    etcd.put(f"{NODES}o", node("o", cpu="1"))
    wait_until(lambda: len(bound_pods(etcd)) == 8, 30, "woken and bound")

    assert gangs_in_history(etcd, first) == ([], {"w": 8})


def test_room_is_made_for_a_whole_gang(cluster: DevTree) -> None:
    etcd = cluster.etcd
    for name in ("a", "b"):
        etcd.put(f"{NODES}{name}", node(name, cpu="2"))
    etcd.put(f"{PODS}default/low-a", pod("low-a", cpu="2", terminationGracePeriodSeconds=1))
    etcd.put(f"{PODS}default/low-b", pod("low-b", cpu="2", terminationGracePeriodSeconds=1))
    wait_until(lambda: len(bound_pods(etcd)) == 2, 20, "two pods run")
    first = etcd.revision() + 1
    put_gang(etcd, "big", 5, priority=10)
    wait_until(lambda: waits_with(etcd, "big-0", "gang needs 5 members"), 20, "one too many")
    assert len(bound_pods(etcd)) == 2
    for number in range(5):
        etcd.delete(f"{PODS}default/big-{number}")

    names = put_gang(etcd, "fits", 4, priority=10)

    def evicted() -> list[str]:
        kept = etcd.objects(f"{PODS}default/low-")
        return [key for key, value in kept.items() if value["metadata"].get("deletionTimestamp")]

    wait_until(lambda: len(evicted()) == 2 or not etcd.objects(f"{PODS}default/low-"), 30, "both are evicted")
    for key in evicted():
        etcd.delete(key)
    wait_until(lambda: set(names) <= set(bound_pods(etcd)), 30, "the gang in their place")
    broken, _ = gangs_in_history(etcd, first)
    assert broken == []


def test_gang_too_large_for_a_transaction_names_the_setting_that_limits(
    servers: DevTree, start_worker: StartWorker
) -> None:
    etcd = servers.etcd
    start_worker("--max-txn-ops", "16")
    etcd.put(f"{NODES}n", node("n", cpu="64"))
    names = put_gang(etcd, "large", 20)

    wait_until(lambda: all(waits_with(etcd, name, "--max-txn-ops") for name in names), 20, "refused with the reason")

    assert bound_pods(etcd) == {}
