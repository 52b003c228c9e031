"""Answers as plain values, for JSON and YAML; the shapes are kept stable and documented in docs/json-outputs.md.

Amounts are integers: cpu in milli-units, everything else in bytes or pieces.
"""

from __future__ import annotations

from typing import Any

from wharfinger.whatif.capacity import Capacity
from wharfinger.whatif.outcome import Answer, PodOutcome, Result
from wharfinger.whatif.use import Use


def simulation(answer: Answer, revision: int | None) -> dict[str, Any]:
    """`revision`: of the live state that it began with; None when there was none."""
    return {
        "revision": revision,
        "summary": {
            "pods": len(answer.pods),
            "placed": sum(pod.placed for pod in answer.pods),
            "preempting": sum(pod.result is Result.PREEMPTING for pod in answer.pods),
            "notPlaced": sum(not pod.placed for pod in answer.pods),
            "evictions": len(answer.evictions),
        },
        "pods": [_pod(pod) for pod in answer.pods],
        "reasons": [{"reasons": list(reasons), "pods": len(pods)} for reasons, pods in answer.reasons.items()],
        "evictions": [
            {"pod": str(one.pod), "node": one.node, "preemptor": str(one.preemptor)} for one in answer.evictions
        ],
        "before": use(answer.before),
        "after": use(answer.after),
        "notes": list(answer.notes),
    }


def capacity(found: Capacity, revision: int | None) -> dict[str, Any]:
    """`revision` as for a simulation."""
    return {
        "revision": revision,
        "pod": str(found.pod),
        "fits": found.fits,
        "limited": found.limited,
        "nodes": dict(found.nodes),
        "message": found.message,
        "refusals": {plugin: dict(reasons) for plugin, reasons in found.refusals.items()},
        "before": use(found.before),
        "after": use(found.after),
        "notes": list(found.notes),
    }


def use(of: Use) -> dict[str, Any]:
    """Nodes, and per resource what is requested, what is offered, and the per cent."""
    return {
        "nodes": of.nodes,
        "resources": {
            name: {"requested": amount.requested, "allocatable": amount.allocatable, "percent": amount.percent}
            for name, amount in of.resources.items()
        },
    }


def _pod(outcome: PodOutcome) -> dict[str, Any]:
    return {
        "pod": str(outcome.pod),
        "cause": outcome.cause.value,
        "workload": outcome.workload or None,
        "from": outcome.left or None,
        "result": outcome.result.value,
        "node": outcome.node,
        "nominatedNode": outcome.nominated_node,
        "victims": [str(victim) for victim in outcome.victims],
        "message": outcome.message,
        "refusals": {plugin: dict(reasons) for plugin, reasons in outcome.refusals.items()},
        **({"leansOn": list(outcome.leans_on)} if outcome.leans_on else {}),
    }
