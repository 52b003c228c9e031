"""States and conditions of placements on their members. Types and reasons of conditions are KubeFleet's.

Pure. `reading.placement_delivery` reads what they follow from. Messages are wharfinger's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from wharfinger.placement.contracts.delivery_records import ResultRecord, WorkRecord
from wharfinger.placement.effects.rolling_out import Rollout
from wharfinger.placement.model.delivery import MemberDelivery
from wharfinger.placement.model.placement import PolicyCondition
from wharfinger.placement.state.hub_view import HubView


class DeliveryState(StrEnum):
    """How a placement stands on one member."""

    AVAILABLE = "available"
    REPORTED = "differences reported"
    """The apply strategy is ReportDiff: nothing is applied."""
    APPLYING = "applying"
    NOT_AVAILABLE = "not available"
    FAILED = "failed"
    HELD = "waits for the budget"
    NEXT = "waits for the hub"
    NO_SNAPSHOT = "waits for a snapshot"
    UPDATE_RUN = "waits for an update run"
    OVERRIDE = "override fails"
    REMOVING = "removing"
    RELEASING = "releasing"
    """The objects stay on the member, and are not the placement's any more."""
    NO_AGENT = "no agent"
    NO_ANSWER = "does not answer"
    """Its agent is there, and gets no answer from the member."""


class DeliveryCondition(NamedTuple):
    """One condition, as KubeFleet's API has it."""

    type: str
    status: str
    """`True`, `False` or `Unknown`."""
    reason: str
    message: str

    @property
    def true(self) -> bool:
        """Whether the condition holds."""
        return self.status == TRUE


TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"


@dataclass(frozen=True)
class DeliveredMember:
    """How a placement stands on one member."""

    name: str
    chosen: bool
    why: str
    """Why it is chosen, or not."""
    online: bool
    """Whether its agent is there."""
    held: bool
    """Whether the budget does not let it change now."""
    rollout: Rollout
    no_contents: str
    """Why the selected objects cannot be placed."""
    delivery: MemberDelivery | None
    """None: the rollout leaves this member out."""
    work: WorkRecord | None
    result: ResultRecord | None
    """As stored. It may be about an earlier work."""

    @cached_property
    def told(self) -> ResultRecord | None:
        """The result, where it is about the contents that the work has."""
        return self.work.answered(self.result) if self.work is not None else None

    @property
    def trouble(self) -> str:
        """Why overrides cannot be resolved for it."""
        return self.rollout.troubles.get(self.name, "")

    @property
    def state(self) -> DeliveryState:
        """The state."""
        return self._standing[0]

    @property
    def message(self) -> str:
        """More about the state, empty where nothing is to be added."""
        return self._standing[1]

    @property
    def done(self) -> bool:
        """Whether nothing is left to do on this member."""
        return self.chosen and self.state in (DeliveryState.AVAILABLE, DeliveryState.REPORTED)

    def __str__(self) -> str:
        return f"{self.name}: {self.state}{f': {self.message}' if self.message else ''}"

    @property
    def current(self) -> bool:
        """Whether its work is for this member, and has what is wanted, or what an update run wants."""
        one = self.delivery
        there = one is not None and one.want == "present" and one.there
        return there and one is not None and (one.current or self.rollout.spec.external)

    @property
    def reason(self) -> str:
        """What its agent says."""
        return self.told.reason if self.told is not None else ""

    @cached_property
    def _standing(self) -> tuple[DeliveryState, str]:
        one, waits = self.delivery, DeliveryState.HELD if self.held else DeliveryState.NEXT
        if self.trouble and self.chosen:
            return DeliveryState.OVERRIDE, self.trouble
        if one is None:
            return DeliveryState.NEXT, self.rollout.trouble
        if not self.chosen:
            return self._leaving(one)
        if one.want is None or not one.there:
            if self.rollout.spec.external:
                return DeliveryState.UPDATE_RUN, ""
            return (waits, "") if self.rollout.snapshot else (DeliveryState.NO_SNAPSHOT, self.no_contents)
        if not self.current:
            return waits, "" if self.told is None or self.told.available else self.reason
        if not one.reachable:
            return self._away, ""
        return self._said()

    @property
    def _away(self) -> DeliveryState:
        """Why a member is not reachable."""
        return DeliveryState.NO_ANSWER if self.online else DeliveryState.NO_AGENT

    def _leaving(self, one: MemberDelivery) -> tuple[DeliveryState, str]:
        if self.held:
            return DeliveryState.HELD, "to be removed"
        if not one.reachable and one.there:
            return self._away, "to be removed"
        releases = one.want == "release" or (one.want == "present" and one.leaving)
        return (
            DeliveryState.RELEASING if releases else DeliveryState.REMOVING,
            "" if one.want == "present" else self.reason,
        )

    def _said(self) -> tuple[DeliveryState, str]:
        """What its agent says of what it shall have."""
        result = self.told
        if result is None or not (result.failed or result.reported or result.applied):
            return DeliveryState.APPLYING, self.reason
        if result.failed:
            return DeliveryState.FAILED, self.reason
        if result.reported:
            return DeliveryState.REPORTED, self.reason or "none"
        if result.available:
            return DeliveryState.AVAILABLE, "not all of it can be tracked" if result.untrackable else ""
        return DeliveryState.NOT_AVAILABLE, self.reason

    @cached_property
    def conditions(self) -> tuple[DeliveryCondition, ...]:
        """KubeFleet's conditions in its order, up to the first that is not true."""
        return tuple(self._conditions())

    def _conditions(self) -> Iterator[DeliveryCondition]:
        if not self.chosen:
            yield DeliveryCondition("Scheduled", FALSE, "ScheduleFailed", self.why)
            return
        yield DeliveryCondition("Scheduled", TRUE, "Scheduled", self.why)
        for kind in _kinds(self.rollout):
            condition = self._condition(kind)
            yield condition
            if not condition.true:
                return

    def _condition(self, kind: str) -> DeliveryCondition:
        result, work = self.told, self.work
        match kind:
            case "RolloutStarted" if self.current:
                said = TRUE, "RolloutStarted", f"snapshot {work.snapshot if work is not None else 0}"
            case "RolloutStarted" if self.held:
                said = FALSE, "RolloutNotStartedYet", "the budget of the rollout does not let it change yet"
            case "RolloutStarted":
                said = UNKNOWN, "RolloutStartedUnknown", "the hub has not delivered the wanted contents yet"
            case "Overridden" if self.trouble:
                said = FALSE, "OverriddenFailed", self.trouble
            case "Overridden" if work is not None and work.overrides:
                said = TRUE, "OverriddenSucceeded", "overrides change objects for this member"
            case "Overridden":
                said = TRUE, "NoOverrideSpecified", "no override changes anything for this member"
            case "WorkSynchronized":
                said = TRUE, "AllWorkSynced", f"counter {work.counter if work is not None else 0}"
            case "DiffReported" if result is not None and result.reported:
                said = TRUE, "AllWorkHaveDiffReported", self.reason
            case "DiffReported":
                said = FALSE, *self._open("NotAllWorkHaveDiffReported", "DiffReportInProgress")
            case "Applied" if result is not None and result.applied:
                said = TRUE, "AllWorkHaveBeenApplied", f"{result.objects} object{'s' if result.objects != 1 else ''}"
            case "Applied":
                said = FALSE, *self._open("NotAllWorkHaveBeenApplied", "ApplyInProgress")
            case _ if result is not None and result.available and result.untrackable:
                said = TRUE, "NotAllWorkAreAvailabilityTrackable", "not all of it can be tracked"
            case _ if result is not None and result.available:
                said = TRUE, "AllWorkAreAvailable", ""
            case _:
                said = FALSE, "NotAllWorkAreAvailable", self.reason
        return DeliveryCondition(kind, *said)

    def _open(self, failed: str, in_progress: str) -> tuple[str, str]:
        """Reason and message of what has failed, or is in progress."""
        return failed if self.told is not None and self.told.failed else in_progress, self.reason


SAID_STATES = ("available", "unavailable", "failed")
"""What `results_by_state` counts."""


def results_by_state(view: HubView) -> Counter[str]:
    """How many members report what they shall have as `available`, `unavailable` or `failed`, over all placements.

    Only results about the present contents count. Where only differences are reported, nothing is counted.
    """
    found: Counter[str] = Counter()
    for reference, works in view.works.items():
        results = view.results.get(reference, {})
        for name, work in works.items():
            told = work.answered(results.get(name))
            if work.want == "present" and told is not None and not told.reported:
                found["failed" if told.failed else "available" if told.available else "unavailable"] += 1
    return found


_REASONS: Mapping[str, tuple[str, str, str, str]] = {
    "RolloutStarted": ("RolloutStarted", "RolloutNotStartedYet", "RolloutStartedUnknown", "got the wanted contents"),
    "Overridden": ("OverriddenSucceeded", "OverriddenFailed", "OverriddenPending", "have their overrides"),
    "WorkSynchronized": ("WorkSynchronized", "WorkNotSynchronizedYet", "WorkSynchronizedUnknown", "have their works"),
    "Applied": ("ApplySucceeded", "ApplyFailed", "ApplyPending", "have all objects applied"),
    "Available": ("ResourceAvailable", "ResourceNotAvailableYet", "ResourceAvailableUnknown", "have all available"),
    "DiffReported": (
        "DiffReportingCompleted",
        "DiffReportingIncompleteOrFailed",
        "DiffReportingPending",
        "have reported their differences",
    ),
}
"""Type -> the reasons of True, False and Unknown for the whole placement, and what members do that count as True."""


def _kinds(rollout: Rollout) -> tuple[str, ...]:
    """The types of conditions that a placement has, in their order."""
    ends = ("DiffReported",) if rollout.spec.strategy.get("type") == "ReportDiff" else ("Applied", "Available")
    return ("RolloutStarted", "Overridden", "WorkSynchronized", *ends)


@dataclass(frozen=True, slots=True)
class ScheduledCondition:
    """What the first condition of a placement follows from."""

    decided: PolicyCondition
    behind: bool
    """Whether the placement was changed since it was decided."""
    no_contents: str
    """Why the selected objects cannot be placed."""

    def condition(self, scope: str) -> DeliveryCondition:
        """The condition, for a kind of placement."""
        kind = f"{scope}Scheduled"
        if self.no_contents:
            return DeliveryCondition(kind, FALSE, "InvalidResourceSelectors", self.no_contents)
        if self.behind:
            return DeliveryCondition(kind, UNKNOWN, "SchedulePending", "it was changed since it was decided")
        return DeliveryCondition(
            kind, TRUE if self.decided.status else FALSE, self.decided.reason, self.decided.message
        )


Chosen = Sequence[tuple[WorkRecord | None, Sequence[DeliveryCondition]]]
"""The works and the conditions of the members that are chosen."""


def conditions_of(
    reference: str, scheduled: ScheduledCondition, rollout: Rollout, chosen: Chosen
) -> Iterator[DeliveryCondition]:
    """The conditions of a whole placement, up to the first that is not true."""
    scope = "ResourcePlacement" if reference.startswith("ns/") else "ClusterResourcePlacement"
    yield scheduled.condition(scope)
    if not chosen:
        return
    budget = rollout.spec.budget
    if budget.max_unavailable.amount == budget.max_surge.amount == 0 and not rollout.spec.external:
        told = "maxUnavailable and maxSurge are both 0: only members that fail are updated"
        yield DeliveryCondition(f"{scope}RolloutBudgetIsZero", TRUE, "NothingMayChange", told)
    snapshots = {work.snapshot if work is not None else 0 for work, _ in chosen}
    if rollout.spec.external and (len(snapshots) > 1 or snapshots == {0}):
        found = "member clusters have different snapshots" if len(snapshots) > 1 else "no member cluster has a snapshot"
        told = f"update runs deliver it, and {found}"
        yield DeliveryCondition(f"{scope}RolloutStarted", UNKNOWN, "RolloutControlledByExternalController", told)
        return
    for kind in _kinds(rollout):
        counts = Counter(one.status for _, conditions in chosen for one in conditions if one.type == kind)
        status = next((one for one in (UNKNOWN, FALSE) if counts[one]), TRUE)
        reason = _REASONS[kind][(TRUE, FALSE, UNKNOWN).index(status)]
        if kind == "Overridden" and status == TRUE and not any(work and work.overrides for work, _ in chosen):
            reason = "NoOverrideSpecified"
        told = f"{counts[TRUE]} of {len(chosen)} member clusters {_REASONS[kind][3]}"
        yield DeliveryCondition(f"{scope}{kind}", status, reason, told)
        if status != TRUE:
            return
