"""What the Temporal UI shows of a fleet's actors: each activity, each wait and the whole in a few words. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from wharfinger.fleet.model.rollout import Busy, Drop, Retire, Up, Writes
    from wharfinger.objects.model.texts import one_line

LIMIT = 150
"""Characters of a line (the server takes 400 bytes)."""
SHOWN = 2
"""Open steps that a wait names; the run's details have them all."""


def line(text: str) -> str:
    """Text as one line of the UI."""
    return one_line(text, LIMIT)


def granting(step: Up) -> str:
    """`slot 7: grant its next incarnation on host-a (revision 5)`."""
    return line(f"slot {step.slot}: grant its next incarnation on {step.host} (revision {step.revision})")


def creating(step: Up, incarnation: int) -> str:
    """`slot 7: create incarnation 3 on host-a (revision 5)`."""
    return line(f"slot {step.slot}: create incarnation {incarnation} on {step.host} (revision {step.revision})")


def awaiting(step: Up, incarnation: int) -> str:
    """`slot 7: wait until incarnation 3 on host-a is ready`."""
    return line(f"slot {step.slot}: wait until incarnation {incarnation} on {step.host} is ready")


def draining(step: Retire) -> str:
    """`slot 7: drain incarnation 2 on host-a, a successor is ready`."""
    return line(f"slot {step.slot}: drain incarnation {step.incarnation} on {step.host}{_because(step.why)}")


def revoking(step: Drop) -> str:
    """`slot 7: fence incarnation 3 off, it is not ready in time`."""
    return line(f"slot {step.slot}: fence incarnation {step.incarnation} off{_because(step.why)}")


def killing(step: Retire | Drop, timeout: float) -> str:
    """`slot 7: kill incarnation 2 on host-a`."""
    how = f" after {timeout:g} s" if timeout else ""
    return line(f"slot {step.slot}: kill incarnation {step.incarnation} on {step.host}{how}")


def looking(why: str, busy: Sequence[Busy]) -> str:
    """`look: poked (2 steps are open)`."""
    count = "1 step is open" if len(busy) == 1 else f"{len(busy)} steps are open"
    open_steps = f" ({count})" if busy else ""
    return line(f"look: {why}{open_steps}")


def recording(writes: Writes, *, take: bool) -> str:
    """`take over; revision 5 is wanted; revision 4: superseded; slot 7: clear incarnation 2 away`."""
    parts = ["take over"] if take else []
    if writes.target is not None:
        parts.append(f"{'new ' if writes.new_revision else ''}revision {writes.target} is wanted")
    parts += [f"revision {one.revision}: {one.outcome}" for one in writes.outcomes]
    if writes.end:
        parts.append("the fleet is gone: remove its keys")
    if writes.tenant != "as-is":
        parts.append(f"tenant {writes.tenant}")
    parts += [f"slot {one.slot}: clear incarnation {one.incarnation} away" for one in writes.clears]
    parts += [f"slot {one.slot}: returns on revision {one.revision}" for one in writes.assigns]
    if writes.forget_revisions:
        parts.append(f"forget revisions {', '.join(map(str, writes.forget_revisions))}")
    if writes.status is not None:
        parts.append(f"status: {writes.status.phase}" if writes.status.phase else "status")
    return line("; ".join(parts) or "nothing")


def waiting(seconds: float, busy: Sequence[Busy]) -> str:
    """`slot 7: incarnation 3 comes up; looks again within 5 s, or when something happens`."""
    return line(f"{doing(busy)}; looks again within {seconds:.3g} s, or when something happens")


def doing(busy: Sequence[Busy]) -> str:
    """`slot 7: incarnation 3 comes up, slot 4: incarnation 2 drains, and 2 more`, or that nothing is open."""
    parts = [f"slot {one.slot}: {_doing(one)}" for one in busy[:SHOWN]]
    if len(busy) > SHOWN:
        parts.append(f"and {len(busy) - SHOWN} more")
    return ", ".join(parts) or "nothing is open"


def details(phase: str, epoch: int, busy: Sequence[Busy]) -> str:
    """The run's current details, as Markdown."""
    steps = "".join(f"\n- slot {one.slot}: {_doing(one)}" for one in busy)
    acts = f"acts under epoch {epoch}" if epoch else "has had nothing to do"
    return f"{phase or 'Looks after the fleet'} ({acts})\n{steps}"


_DOING: Mapping[str, str] = {"up": "comes up", "retire": "drains", "drop": "is fenced off"}


def _doing(one: Busy) -> str:
    which = f"incarnation {one.incarnation}" if one.incarnation else "its next incarnation"
    return f"{which} {_DOING.get(one.kind, one.kind)}"


def _because(why: str) -> str:
    return f": {why}" if why else ""
