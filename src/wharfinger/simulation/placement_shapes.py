"""The shapes of recorded placements: bindings, cycles and statuses as plain values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.model.placement import MemberScores, PolicyCondition
from wharfinger.placement import texts
from wharfinger.placement.upstream_records import Binding, Cycle, SnapshotStatus, StatusLine


def read_binding(written: Mapping[str, Any]) -> Binding:
    """A binding. One that is being deleted was seen by a cycle, and its works keep it."""
    cluster, _, number = str(written["id"]).rpartition("#")
    scores = _read_scores(written)
    deleting = bool(written.get("deleting"))
    return Binding(
        cluster=cluster,
        number=int(number),
        state=written["state"],
        policy=written["policy"],
        scores=scores,
        reason=texts.chosen(cluster, scores),
        previous=written.get("previous", ""),
        deleting=deleting,
        held=not deleting,
    )


def written_binding(binding: Binding) -> dict[str, Any]:
    """A binding as a value."""
    found: dict[str, Any] = {
        "id": binding.id,
        "cluster": binding.cluster,
        "state": binding.state,
        "policy": binding.policy,
        **_written_scores(binding.scores),
    }
    if binding.previous:
        found["previous"] = binding.previous
    if binding.deleting:
        found["deleting"] = True
    return found


def written_cycle(cycle: Cycle) -> dict[str, Any]:
    """What a cycle did, as a value: only what it did is named."""
    found: dict[str, Any] = {}
    if cycle.changed:
        found["changed"] = [written_binding(one) for one in cycle.changed]
    if cycle.gone:
        found["gone"] = list(cycle.gone)
    if cycle.again:
        found["requeue"] = True
    if cycle.wrote:
        found["wrote"] = True
    if cycle.failure is not None:
        kind = "expected" if cycle.failure.again else "unexpected"
        found["error"] = {"class": kind, "text": cycle.failure.text}
    return found


def read_status(written: Mapping[str, Any]) -> tuple[SnapshotStatus, str]:
    """A status, and when its condition changed last."""
    told = written["scheduled"]
    lines = [
        StatusLine(one["cluster"], one["selected"], one["reason"], _read_scores(one)) for one in written["decisions"]
    ]
    condition = PolicyCondition(told["status"] == "True", told["reason"], told["message"])
    return SnapshotStatus(written["observedGeneration"], condition, tuple(lines)), str(told["lastTransitionTime"])


def written_status(status: SnapshotStatus, changed: str) -> dict[str, Any]:
    """A status as a value. `changed`: when its condition changed last."""
    return {
        "observedGeneration": status.generation,
        "scheduled": {
            "status": "True" if status.condition.status else "False",
            "reason": status.condition.reason,
            "message": status.condition.message,
            "lastTransitionTime": changed,
        },
        "decisions": [
            {"cluster": line.cluster, "selected": line.selected, **_written_scores(line.scores), "reason": line.reason}
            for line in status.lines
        ],
    }


def _read_scores(written: Mapping[str, Any]) -> MemberScores | None:
    return MemberScores(written["spread"], written["affinity"]) if "affinity" in written else None


def _written_scores(scores: MemberScores | None) -> dict[str, int]:
    return {} if scores is None else {"affinity": scores.affinity, "spread": scores.spread}
