"""PriorityClasses: the global default's name, and pods that contradict their class.

As in Kubernetes 1.36 (`plugin/pkg/admission/priority`). What a class gives to its pods is resolved wherever pods are
read (`objects.model.priority`); there a priority that a pod has without naming a class counts, which an API server
refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.objects.documents.fields import text
from wharfinger.objects.model.priority import PriorityClasses
from wharfinger.whatif.admission.verdict import NotMade


def with_default(spec: Mapping[str, Any], classes: PriorityClasses) -> Mapping[str, Any]:
    """The specification with the global default's name, if it leaves its priority open."""
    if classes.default is None or spec.get("priorityClassName") or spec.get("priority") is not None:
        return spec
    return {**spec, "priorityClassName": classes.default.name}


def contradiction(spec: Mapping[str, Any], classes: PriorityClasses) -> NotMade | None:
    """Why a pod with another priority or preemption policy than its class is not made. Raises `InvalidObject`."""
    name = text(spec, "priorityClassName", "spec.")
    found = classes.find(name) if name else None
    if found is None:
        return None
    for field, own, given in (
        ("priority", spec.get("priority"), found.value),
        ("preemptionPolicy", spec.get("preemptionPolicy"), found.preemption_policy),
    ):
        if own is not None and own != given:
            return NotMade(f"its {field} is {own}, and PriorityClass {name} gives it {given}")
    return None
