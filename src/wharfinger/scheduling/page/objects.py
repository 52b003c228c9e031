"""Pods and nodes as JSON: the fields that scheduling reads, decoded, and nothing else.

Never the stored object: that has environments, commands and annotations, which may hold secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.objects.documents.times import seconds_since
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import NodeSelectorTerm, Requirement, Taint, Toleration
from wharfinger.page.follow.plain import text
from wharfinger.scheduling.page.read_model import ClusterModel
from wharfinger.scheduling.page.reasons import reason_of

MOST_LABELS = 100


def labels(found: Mapping[str, str]) -> dict[str, str]:
    """The first labels, by key."""
    return {text(key): text(found[key]) for key in sorted(found)[:MOST_LABELS]}


def taint(found: Taint) -> str:
    """As kubectl writes it: `key=value:Effect`."""
    return text(f"{found.key}{'=' if found.value else ''}{found.value}:{found.effect}")


def toleration(found: Toleration) -> str:
    """What is tolerated, in the same words."""
    key = found.key or "*"
    value = f"={found.value}" if found.value else ""
    return text(f"{key}{value}:{found.effect or '*'}")


def pod_in_short(model: ClusterModel, pod: Pod) -> dict[str, Any]:
    """A pod as a row of a list."""
    record = model.record_of(pod) if pod.pending else None
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "state": model.state_of(pod),
        "node": pod.node_name or None,
        "nominatedNode": pod.nominated_node_name or None,
        "priority": pod.priority,
        "requests": dict(pod.requests),
        "created": pod.creation_timestamp or None,
        "reason": reason_of(pod, record, "", model.cache.held_places.get(pod.key)).reason if pod.pending else None,
        "plugins": list(record.rejectors) if record is not None else [],
        "message": text(record.message) if record is not None else None,
        "attempts": record.attempt if record is not None else None,
        "gang": pod.group or None,
    }


def pod_in_full(model: ClusterModel, pod: Pod) -> dict[str, Any]:
    """Everything that scheduling reads of a pod, and how it stands."""
    return pod_in_short(model, pod) | {
        "uid": pod.uid,
        "phase": pod.phase or None,
        "createRevision": pod.create_revision,
        "modRevision": pod.mod_revision,
        "ageSeconds": seconds_since(pod.creation_timestamp, model.now()),
        "scheduler": pod.scheduler_name,
        "labels": labels(pod.labels),
        "priorityClass": pod.class_terms.name if pod.class_terms is not None else None,
        "preemptionPolicy": pod.preemption_policy,
        "nodeSelector": labels(pod.node_selector),
        "requiredNodeTerms": [_term(term) for term in pod.required_node_terms or ()],
        "preferredNodeTerms": [{"weight": one.weight, "term": _term(one.term)} for one in pod.preferred_node_terms],
        "tolerations": [toleration(one) for one in pod.tolerations[:MOST_LABELS]],
        "requiredAffinity": len(pod.required_affinity),
        "requiredAntiAffinity": len(pod.required_anti_affinity),
        "preferredAffinity": len(pod.preferred_affinity) + len(pod.preferred_anti_affinity),
        "spreadConstraints": [text(str(one.topology_key)) for one in pod.spread_constraints],
        "hostPorts": [f"{port.protocol}/{port.ip}:{port.port}" for port in pod.host_ports[:MOST_LABELS]],
        "claims": [text(str(claim.name)) for claim in pod.claims[:MOST_LABELS]],
        "gates": [text(gate) for gate in pod.scheduling_gates],
        "controller": list(pod.controller) if pod.controller is not None else None,
        "unsupported": [text(one) for one in pod.unsupported],
        "condition": _condition(pod),
        "terminating": bool(pod.deletion_timestamp),
    }


def node_in_full(node: Node) -> dict[str, Any]:
    """Everything that scheduling reads of a node."""
    return {
        "name": node.name,
        "ready": node.ready,
        "unschedulable": node.unschedulable,
        "allocatable": dict(node.allocatable),
        "labels": labels(node.labels),
        "taints": [taint(one) for one in node.taints],
        "conditions": labels(node.conditions),
        "images": len(node.images),
    }


def _condition(pod: Pod) -> dict[str, str] | None:
    if pod.condition is None:
        return None
    status, reason, message = pod.condition
    return {"status": text(status), "reason": text(reason), "message": text(message)}


def _term(term: NodeSelectorTerm) -> list[str]:
    return [_words(one) for one in (*term.expressions, *term.fields)]


def _words(one: Requirement) -> str:
    return text(f"{one.key} {one.operator} {' '.join(one.values)}".strip())
