"""Placements decided in memory, without any server: for tests, comparisons and questions.

The core is the hub's (`placement`); with `upstream=True` it decides as KubeFleet's scheduler does, cycle by cycle.
Snapshots, bindings and statuses have the shapes of the recordings in `tests/conformance/data/placement`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from wharfinger.errors import UsageError
from wharfinger.objects.documents.fields import mapping, text
from wharfinger.objects.documents.times import rfc3339
from wharfinger.objects.model.placement_kinds import MEMBER_CLUSTER, NAMESPACED_PLACEMENT, PLACEMENTS
from wharfinger.placement.kubefleet.bindings import (
    BOUND,
    SCHEDULED,
    UNSCHEDULED,
    Binding,
    KubeFleetAttempt,
    SnapshotStatus,
    by_name,
    choose,
    read_binding,
    read_status,
    written_binding,
    written_cycle,
    written_status,
)
from wharfinger.placement.kubefleet.cycle import run
from wharfinger.placement.model.members import Ages, Member
from wharfinger.placement.model.placement import Placement, PlacementRef, PlacementType
from wharfinger.placement.spec import placements
from wharfinger.placement.spec.members import member_from_mapping

START = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class SimulatedPlacement:
    """What was decided for a placement, in the shapes of the recordings."""

    reference: str
    """P."""
    cycles: Sequence[Mapping[str, Any]]
    """What each cycle did. Only `upstream` needs more than one."""
    snapshot: Mapping[str, Any]
    bindings: Sequence[Mapping[str, Any]]
    status: Mapping[str, Any] | None
    """None when it is as it was."""
    deviations: frozenset[str]
    """The deviations from KubeFleet that mattered: D1 to D14 (`deciding.deviations`)."""
    _after: _Placed = field(repr=False)
    _version: int = field(repr=False)


@dataclass
class _Placed:
    """A placement and what was decided for it."""

    name: str
    obj: Mapping[str, Any] | None
    """None: it was restored, and is not added yet."""
    policy: Mapping[str, Any] | None = None
    number: int = 0
    """Of the active policy snapshot."""
    generation: int = 1
    bindings: dict[str, Binding] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    identities: dict[str, int] = field(default_factory=dict)
    """Identity of the member that each binding is for, by the binding's id."""
    status: SnapshotStatus | None = None
    changed: str = ""
    """When the condition changed last."""
    version: int = 0

    def copy(self) -> _Placed:
        """Another one that can be changed."""
        return replace(self, bindings=dict(self.bindings), numbers=dict(self.numbers), identities=dict(self.identities))

    @property
    def placement(self) -> Placement:
        """For deciding."""
        assert self.obj is not None, "only what was added is decided"
        return replace(placements.placement_from_mapping(self.obj), generation=self.generation)

    @property
    def snapshot(self) -> str:
        """Name of the active policy snapshot."""
        return f"{self.name}-{self.number}"


class PlacementSimulator:
    """Members and placements in memory. Placements are named by P: `cluster/<name>` or `ns/<namespace>/<name>`."""

    def __init__(self, upstream: bool = False, now: str = START, unselected_limit: int = 20) -> None:
        """`upstream`: decide as KubeFleet's scheduler does, with its defects.

        `unselected_limit`: how many members that are not selected a status names at most.
        """
        self.now = now
        """The clock. It stands still until it is set."""
        self._as_kubefleet = upstream
        self._limit = unselected_limit
        self._members: dict[str, Member] = {}
        self._placed: dict[str, _Placed] = {}
        self._identities = 0

    def add(self, obj: Mapping[str, Any]) -> None:
        """An object is this one from now on, as a whole: a MemberCluster or a placement.

        A member with a `deletionTimestamp` is leaving, and stays so. A placement's generation grows when its spec
        changes, unless it is given. Raises InvalidObject, or UsageError for another kind.
        """
        kind = text(obj, "kind")
        if kind == MEMBER_CLUSTER:
            self._add_member(obj)
        elif kind in PLACEMENTS:
            self._add_placement(obj)
        else:
            raise UsageError(f"the simulator knows no {kind[:40] or 'object without kind'}")

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        """An object is gone. Added again, it is another one. UsageError when there is none."""
        if kind == MEMBER_CLUSTER:
            if self._members.pop(name, None) is None:
                raise UsageError(f"there is no {kind} {name}")
            return
        reference = str(PlacementRef((namespace or "default") if kind == NAMESPACED_PLACEMENT else "", name))
        if kind not in PLACEMENTS or self._placed.pop(reference, None) is None:
            raise UsageError(f"there is no {kind} {name}")

    def restore(
        self,
        reference: str,
        snapshot: Mapping[str, Any],
        bindings: Sequence[Mapping[str, Any]],
        status: Mapping[str, Any] | None = None,
    ) -> None:
        """Replace what was decided for a placement, which may be added afterwards."""
        placed = self._placed.setdefault(reference, _Placed(reference.rpartition("/")[2], None))
        placed.number = int(str(snapshot["name"]).rpartition("-")[2])
        placed.generation = int(snapshot["generation"])
        restored = [read_binding(one) for one in bindings]
        placed.bindings = {one.id: one for one in restored}
        for one in restored:
            placed.numbers[one.cluster] = max(placed.numbers.get(one.cluster, 0), one.number + 1)
            member = self._members.get(one.cluster)
            placed.identities.setdefault(one.id, member.identity if member is not None else 0)
        placed.status, placed.changed = read_status(status) if status is not None else (None, "")
        placed.version += 1

    def bind(self, reference: str, binding: str) -> None:
        """The roll-out delivered a choice: it is Bound. UsageError unless it is Scheduled."""
        placed, found = self._found(reference, binding)
        if found.state != SCHEDULED:
            raise UsageError(f"{binding} of {reference} is {found.state}, not {SCHEDULED}")
        placed.bindings[binding] = replace(found, state=BOUND)
        placed.version += 1

    def delete_binding(self, reference: str, binding: str, lingers: bool = False) -> None:
        """A choice is evicted, or one that was given up is removed. `lingers`: its works keep it until `finish`."""
        placed, found = self._found(reference, binding)
        placed.bindings[binding] = replace(found, deleting=True, works=lingers)
        placed.version += 1

    def finish(self, reference: str, binding: str) -> None:
        """The works of a deleted choice are gone."""
        placed, found = self._found(reference, binding)
        if not found.deleting:
            raise UsageError(f"{binding} of {reference} is not deleted")
        if found.held:
            placed.bindings[binding] = replace(found, works=False)
        else:
            del placed.bindings[binding]
        placed.version += 1

    def decide(self, reference: str) -> SimulatedPlacement:
        """Decide for a placement; changes nothing. UsageError when there is no such placement."""
        placed = self._of(reference)
        placement = placed.placement
        members = tuple(self._members[name] for name in sorted(self._members))
        now = datetime.fromisoformat(self.now).timestamp()
        ages = {member.name: _ages(member, now) for member in members}
        attempt = KubeFleetAttempt(
            placement=placement,
            snapshot=placed.snapshot,
            members=members,
            ages=ages,
            unselected_limit=self._limit,
            bindings=dict(placed.bindings),
            numbers=dict(placed.numbers),
            status=placed.status,
        )
        deviations: frozenset[str] = frozenset()
        if self._as_kubefleet:
            run(attempt)
        else:
            deviations = choose(attempt, placed.number, placed.identities)
        new = {key: one for key, one in attempt.bindings.items() if key not in placed.bindings}
        fresh = {key: self._members[one.cluster].identity for key, one in new.items()}
        after = replace(
            placed,
            bindings=attempt.bindings,
            numbers=attempt.numbers,
            identities=placed.identities | fresh,
            status=attempt.status,
            changed=self._changed(placed, attempt),
        )
        return SimulatedPlacement(
            reference=reference,
            cycles=[written_cycle(one) for one in attempt.cycles],
            snapshot=_snapshot(after, placement),
            bindings=[written_binding(one) for one in sorted(attempt.bindings.values(), key=by_name)],
            status=written_status(after.status, after.changed) if attempt.wrote and after.status is not None else None,
            deviations=deviations,
            _after=after,
            _version=placed.version,
        )

    def commit(self, decision: SimulatedPlacement) -> None:
        """Store what was decided. UsageError when the placement, or its choice, changed since."""
        placed = self._of(decision.reference)
        if placed.version != decision._version:
            raise UsageError(f"{decision.reference} changed after this was decided; decide again")
        self._placed[decision.reference] = replace(decision._after.copy(), version=placed.version + 1)

    def plan(self, *objects: Mapping[str, Any], leave: Sequence[str] = ()) -> list[SimulatedPlacement]:
        """Which placements would get other members, with these objects added and these members gone; changes nothing.

        Each as it would be decided, by reference. UsageError for a member that is not there.
        """
        then = PlacementSimulator(self._as_kubefleet, self.now, self._limit)
        then._members, then._identities = dict(self._members), self._identities
        then._placed = {reference: placed.copy() for reference, placed in self._placed.items()}
        for obj in objects:
            then.add(obj)
        for name in leave:
            then.delete(MEMBER_CLUSTER, name)
        decided = [then.decide(reference) for reference, placed in sorted(then._placed.items()) if placed.obj]
        return [one for one in decided if _chosen(one._after) != _chosen(self._placed.get(one.reference))]

    def _add_member(self, obj: Mapping[str, Any]) -> None:
        name = text(mapping(obj, "metadata"), "name", "metadata.")
        old = self._members.get(name)
        member = member_from_mapping(obj, old.identity if old is not None else self._identities + 1)
        if old is None:
            self._identities += 1
        elif old.leaving and not member.leaving:
            left = {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": self.now}}
            member = member_from_mapping(left, old.identity)
        self._members[name] = member

    def _add_placement(self, obj: Mapping[str, Any]) -> None:
        ref = placements.placement_ref(obj)
        placements.policy_from_mapping(mapping(obj, "spec"))
        policy = mapping(obj, "spec").get("policy")
        given = mapping(obj, "metadata").get("generation")
        old = self._placed.get(str(ref))
        if old is None:
            self._placed[str(ref)] = _Placed(ref.name, obj, policy, generation=given or 1)
            return
        if old.obj is None:  # what was restored is by this policy
            old.obj, old.policy, old.generation = obj, policy, given or old.generation
            return
        if given is not None or old.obj.get("spec") != obj.get("spec"):
            old.generation = given if given is not None else old.generation + 1
        if _without_number(policy) != _without_number(old.policy):
            old.number += 1
            old.status, old.changed = None, ""
        old.obj, old.policy = obj, policy
        old.version += 1

    def _of(self, reference: str) -> _Placed:
        placed = self._placed.get(reference)
        if placed is None or placed.obj is None:
            raise UsageError(f"there is no placement {reference}")
        return placed

    def _found(self, reference: str, binding: str) -> tuple[_Placed, Binding]:
        placed = self._of(reference)
        found = placed.bindings.get(binding)
        if found is None:
            raise UsageError(f"{reference} has no binding {binding}")
        return placed, found

    def _changed(self, placed: _Placed, attempt: KubeFleetAttempt) -> str:
        old, new = placed.status, attempt.status
        if old is not None and new is not None and old.condition.status == new.condition.status:
            return placed.changed
        return rfc3339(datetime.fromisoformat(self.now).astimezone(UTC))


def _chosen(placed: _Placed | None) -> set[tuple[str, int]]:
    """Names and identities of the chosen."""
    if placed is None:
        return set()
    live = [one for one in placed.bindings.values() if not one.deleting and one.state != UNSCHEDULED]
    return {(one.cluster, placed.identities.get(one.id, 0)) for one in live}


def _ages(member: Member, now: float) -> Ages:
    agent = member.agent
    heartbeat = agent.heartbeat if agent is not None else None
    health = agent.healthy.since if agent is not None and agent.healthy is not None else None
    return Ages(None if heartbeat is None else now - heartbeat, None if health is None else now - health)


def _without_number(policy: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if policy is None:
        return None
    return {name: value for name, value in policy.items() if name != "numberOfClusters"}


def _snapshot(placed: _Placed, placement: Placement) -> dict[str, Any]:
    found: dict[str, Any] = {"name": placed.snapshot}
    if placement.policy.type is PlacementType.PICK_N:
        found["numberOfClusters"] = placement.policy.number
    found["generation"] = placed.generation
    return found
