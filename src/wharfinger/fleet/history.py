"""Which revisions are kept: those in use, and the newest of the others."""

from __future__ import annotations

from wharfinger.fleet.lives import View
from wharfinger.fleet.targets import Target


def forgotten(view: View, target: Target) -> tuple[int, ...]:
    """Numbers of the revisions beyond the history limit, oldest first."""
    observed, memory = view.observed, target.memory
    used = {target.number, target.stable, memory.stable, memory.reverted_from, memory.frozen}
    used |= {life.revision for life in view.lives}
    used |= {slot.revision for slot in observed.slots if slot.number < view.spec.replicas}
    used |= {step.revision for step in view.asked.busy}
    numbers = sorted(revision.number for revision in observed.revisions)
    used |= set(numbers[-1:])  # its successor's number comes from it
    others = [number for number in numbers if number not in used]
    return tuple(others[: max(len(others) - view.spec.history_limit, 0)])
