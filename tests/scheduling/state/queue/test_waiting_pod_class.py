"""Pods of one class get one answer: so whatever a decision reads tells classes apart."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from wharfinger.objects.model.pod import GangTerms, HostPort, Pod
from wharfinger.objects.model.selectors import (
    NodeSelectorTerm,
    PodAffinityTerm,
    PreferredTerm,
    SpreadConstraint,
    Toleration,
    WeightedPodAffinityTerm,
)
from wharfinger.objects.model.volumes import InLineVolume, PodClaim
from wharfinger.scheduling.state.queue.waiting import pod_class
from wharfinger.testing.builders import pod

TERM = PodAffinityTerm("zone", None)
READ: dict[str, Any] = {
    "namespace": "other",
    "labels": {"a": "b"},
    "priority": 1,
    "preemption_policy": "Never",
    "scheduler_name": "other",
    "nominated_node_name": "n",
    "requests": {"cpu": 1},
    "scoring_cpu": 1,
    "scoring_memory": 1,
    "host_ports": (HostPort("TCP", "0.0.0.0", 80),),
    "node_selector": {"a": "b"},
    "required_node_terms": (),
    "preferred_node_terms": (PreferredTerm(1, NodeSelectorTerm()),),
    "tolerations": (Toleration("a"),),
    "required_affinity": (TERM,),
    "required_anti_affinity": (TERM,),
    "preferred_affinity": (WeightedPodAffinityTerm(1, TERM),),
    "preferred_anti_affinity": (WeightedPodAffinityTerm(1, TERM),),
    "spread_constraints": (SpreadConstraint(1, "zone", True),),
    "images": ("a",),
    "container_count": 2,
    "controller": ("ReplicaSet", "a"),
    "claims": (PodClaim("a"),),
    "in_line_volumes": (InLineVolume(),),
    "required_features": frozenset({"a"}),
    "unsupported": ("a",),
    "hard_terms_across_nodes": True,
    "group": "a",
    "gang": GangTerms(min_available=2),
}
NOT_READ = {
    *("name", "uid", "create_revision", "mod_revision", "creation_timestamp", "start_time", "condition"),
    *("key", "identity"),  # names and revisions
    # none of those that wait has them
    *("node_name", "phase", "deletion_timestamp", "scheduling_gates", "class_missing"),
    "class_terms",  # resolved into priority and preemption policy
    "once_moved",  # what others count of it when it is bound
    *("termination_grace_seconds", "disruption_target"),  # of bound pods that are evicted
}


@pytest.mark.parametrize("name", [field.name for field in fields(Pod) if field.name not in NOT_READ])
def test_what_a_decision_reads_makes_another_class(name: str) -> None:
    one = pod()

    assert pod_class(replace(one, **{name: READ[name]})) != pod_class(one)


def test_name_and_uid_do_not() -> None:
    assert pod_class(pod("a")) == pod_class(pod("b"))
