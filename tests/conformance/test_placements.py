"""Every placement that a real KubeFleet scheduler was recorded to decide, decided again: as it does, and as we do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.conformance.placements import FAMILIES, PARTS, Step, play, scenarios, unordered

ODD = frozenset({"churn", "spread", "picknchange"})
"""Families that are about what we do otherwise: for the others most answers are KubeFleet's."""


def test_all_families_are_there() -> None:
    assert len(FAMILIES) == 10
    assert sum(1 for family in FAMILIES for _ in scenarios(family)) == 2000


in_parts = pytest.mark.parametrize(
    "part", [pytest.param(part, marks=[pytest.mark.long] if part else []) for part in range(PARTS)]
)
"""`make check` plays the first part."""


@in_parts
@pytest.mark.parametrize("family", FAMILIES)
def test_upstream_decides_as_kubefleet_cycle_by_cycle(family: str, part: int) -> None:
    wrong = [
        step.where
        for scenario in scenarios(family, part, PARTS)
        for step in play(scenario, upstream=True)
        if step.admitted and not any(_is(step, end) for end in step.ends)
    ]
    assert wrong == []


@in_parts
@pytest.mark.parametrize("family", FAMILIES)
def test_whatever_is_decided_otherwise_names_its_deviations(family: str, part: int) -> None:
    steps = [
        step for scenario in scenarios(family, part, PARTS) for step in play(scenario, upstream=False) if step.admitted
    ]
    wrong = [
        step.where for step in steps if not step.decided.deviations and not any(_alike(step, e) for e in step.ends)
    ]
    assert wrong == []
    named_in_vain = sum(bool(step.decided.deviations) and _alike(step, step.recorded) for step in steps)
    assert named_in_vain < len(steps) / 25
    as_kubefleet = sum(not step.decided.deviations for step in steps)
    assert as_kubefleet > len(steps) * (0.35 if family in ODD else 0.6)


def _is(step: Step, end: Mapping[str, Any]) -> bool:
    decided = step.decided
    return (
        decided.snapshot == step.recorded["snapshot"]
        and unordered(decided.bindings) == unordered(end["bindings"])
        and decided.status == end.get("status")
        and _cycles(decided.cycles) == _cycles(end["cycles"])
    )


def _alike(step: Step, end: Mapping[str, Any]) -> bool:
    """Whether all is equal but for how often it cycled, former states, and the order of the status."""
    decided, status = step.decided, end.get("status")
    return (
        not any("error" in cycle for cycle in end["cycles"])
        and decided.snapshot == step.recorded["snapshot"]
        and unordered(decided.bindings, without="previous") == unordered(end["bindings"], without="previous")
        and (decided.status is None) == (status is None)
        and (
            decided.status is None
            or status is None
            or (
                {**decided.status, "decisions": None} == {**status, "decisions": None}
                and unordered(decided.status["decisions"], "cluster") == unordered(status["decisions"], "cluster")
            )
        )
    )


def _cycles(cycles: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [
        {
            **cycle,
            "changed": unordered(cycle.get("changed", ())),
            "error": cycle["error"]["class"] if "error" in cycle else None,
        }
        for cycle in cycles
    ]
