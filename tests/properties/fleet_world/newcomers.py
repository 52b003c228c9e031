"""What the newcomers of a rollout have shown, as the judge counts it, and what may be ended for their template.

A slot *fails* when two of its newcomers ended though their grant said run. It is *proven* once one of them has counted
for the soak time without a break. Then three rules hold for an instance that serves and is ended for the target's
template, each judged by the exits that the plan saw:

- `failing`: not while as many slots fail as stop the rollout;
- `held`: not while a slot that ended is not proven;
- `unproven`: not so that more than max(1, maxSurge + maxUnavailable) slots lost their former instance unproven.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.properties.fleet_world.etcd import Life, Shelf
from wharfinger.fleet.model.fleet import Decisions, Exit, FleetSpec

if TYPE_CHECKING:
    from tests.properties.fleet_world.judge import Basis, Judge
    from tests.properties.fleet_world.world import World


@dataclass(slots=True)
class Newcomers:
    """Of one rollout."""

    ends: dict[Life, int] = field(default_factory=dict)
    """Unplanned ends: life -> create revision of the exit record."""
    proven: set[Life] = field(default_factory=set)
    replaced: set[int] = field(default_factory=set)
    """Slots whose former instance was ended though it served."""


def limit(spec: FleetSpec) -> int:
    """Slots that may have lost their former instance and not be proven yet."""
    surge = spec.max_surge.of(spec.replicas, up=True)
    return max(1, surge + spec.max_unavailable.of(spec.replicas, up=False))


class NewcomerRules:
    """Counts what newcomers show, and judges the ends of those that they replace."""

    def __init__(self, world: World, judge: Judge) -> None:
        self._world = world
        self._judge = judge

    # --- what is counted ----------------------------------------------------------------------

    def begin(self, tenant: str) -> None:
        """A rollout starts, or gets another target: it is counted anew."""
        self._judge.of(tenant).newcomers = Newcomers()

    def decided(self, shelf: Shelf, said: Decisions) -> None:
        """Decisions are recorded: a resumed rollout counts its failures anew."""
        before = shelf.actor.decisions if shelf.actor is not None else None
        if before is not None and said.answered != before.answered:
            self._of(shelf).ends.clear()

    def reported(self, shelf: Shelf, ended: Exit) -> None:
        """An agent wrote an exit record: it counts when the end was unplanned and the host is not the reason."""
        rollout = self._world.tenant(shelf.tenant).rollout
        if not ended.planned and not ended.host_restarted and rollout is not None and not rollout.closed:
            life = (ended.slot, ended.incarnation)
            self._of(shelf).ends[life] = shelf.exited[life]

    def rewriting(self, shelf: Shelf, life: Life) -> None:
        """Before an instance's record is overwritten or removed."""
        if self._is_proven(shelf, life):
            self._of(shelf).proven.add(life)

    def _of(self, shelf: Shelf) -> Newcomers:
        return self._judge.of(shelf.tenant).newcomers

    def _is_proven(self, shelf: Shelf, life: Life) -> bool:
        instance, tenant = shelf.instances.get(life), shelf.tenant
        if instance is None or instance.state != "ready":
            return False
        patience = self._world.min_ready(tenant) + self._world.soak(tenant)
        return self._world.timeline.now - shelf.since[life] >= patience - 1e-6

    # --- what is judged -----------------------------------------------------------------------

    def replaced(self, shelf: Shelf, life: Life, basis: Basis) -> None:
        """Before an instance is drained or fenced off."""
        wanted, specs = basis.target, self._judge.specs(shelf, basis)
        if not self._is_update(shelf, life, basis):
            return
        newcomers, made = self._of(shelf), self._judge.of(shelf.tenant).made
        newcomers.proven |= {other for other in shelf.instances if self._is_proven(shelf, other)}
        mine = {other for other, revision in made.items() if shelf.alike(revision, wanted)}
        proven = {other[0] for other in newcomers.proven & mine}
        replicas = min(spec.replicas for spec in specs)
        ends: dict[int, int] = {}
        for other, at in newcomers.ends.items():
            if other in mine and at <= basis.read_at and other[0] < replicas:
                ends[other[0]] = ends.get(other[0], 0) + 1
        failed = sorted(slot for slot, times in ends.items() if times >= 2)
        if len(failed) >= max(spec.failure_threshold for spec in specs):
            self._violated(shelf, "failing", f"{life} is ended while slots {failed} fail on revision {wanted}")
        elif held := sorted(ends.keys() - proven):
            self._violated(shelf, "held", f"{life} is ended before slots {held} were observed anew")
        newcomers.replaced.add(life[0])
        served = {
            other[0]
            for other, theirs in shelf.grants.items()
            if other != life and theirs.want == "run" and not shelf.alike(theirs.revision, wanted)
        }
        risked = {slot for slot in newcomers.replaced - proven - served if slot < replicas}
        # A limit that was lowered meanwhile forbids further risks, and not the ends that add none.
        if life[0] in risked and len(risked) > max(limit(spec) for spec in specs):
            self._violated(shelf, "unproven", f"{life} is ended while slots {sorted(risked)} are unproven")

    def _is_update(self, shelf: Shelf, life: Life, basis: Basis) -> bool:
        """Whether an instance that serves is ended for another template's sake.

        Otherwise the fleet or the slot goes, its host is drained, or another one like it serves in its slot.
        """
        grant, specs = shelf.grants[life], self._judge.specs(shelf, basis)
        if (
            not basis.target
            or not specs
            or self._judge.leaving(shelf, basis)
            or grant.want != "run"
            or grant.identity != basis.identity
            or grant.host in basis.draining
            or shelf.alike(grant.revision, basis.target)
            or any(grant.slot >= spec.replicas for spec in specs)
        ):
            return False
        serving = [other for other in self._judge.serving(shelf, basis) if other[0] == life[0]]
        return life in serving and not any(
            other != life and shelf.alike(shelf.grants[other].revision, grant.revision) for other in serving
        )

    def _violated(self, shelf: Shelf, rule: str, why: str) -> None:
        self._judge.violated(shelf.tenant, rule, why)
