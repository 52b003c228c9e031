"""Placing a gang: as many members as it needs, each on the snapshot that the ones before it left; or none.

::

    pure tries ── in each domain, the best first ──────► enough have a node: placed, in the domain with most points
        │ nowhere enough
    tries with victims ── of lower priority than every member ──► enough: nominations and victims, none is placed
        │ nowhere enough
    refused: none is placed, none evicted

Pure; the same for live placement, waking and the simulator. Greedy, as kube-scheduler is: members go by priority, then
age (`objects.model.gang.in_order`), each to its best node, so a gang of unequal members may miss a placement that
exists. A running gang's members are victims like any other pod, one by one, as in kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from wharfinger.framework.domain import Domain
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.gangs.gang_domains import Engine, domains_for
from wharfinger.framework.preferred_nodes import Preference
from wharfinger.framework.profile import Profile
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.gang import GANG_SCHEDULING, Wanted
from wharfinger.objects.model.pod import Pod

NO_DOMAIN = "no node has the"
"""What the message of a gang has that found no domain at all."""


@dataclass(frozen=True, slots=True)
class SeatedMember:
    """A member with a node; in a try with victims, where it will go once they have left."""

    pod: Pod
    evaluation: Evaluation
    node: str
    start: int = 0
    """Where the search of a sampling profile began."""
    victims: tuple[Pod, ...] = ()


@dataclass(frozen=True, slots=True)
class Unseated:
    """A member without a node."""

    pod: Pod
    evaluation: Evaluation
    after: int = 0
    """How many had a node before it was decided."""


@dataclass(frozen=True, slots=True)
class GangPlacement:
    """The answer for all members."""

    seats: tuple[SeatedMember, ...] = ()
    """Members with a node, in the order in which they were decided; none when too few fit."""
    away: tuple[Unseated, ...] = ()
    """Of a placed gang: members beyond those needed for which there is no room. Of a refused one: members that
    were decided and did not fit, in the domain that took most."""
    domain: Domain | None = None
    """Where it is placed, or was refused at last; None without topology keys, or when there is no domain."""
    message: str = ""
    """Why not, in kube-scheduler's words and what was short; empty when placed."""
    rejectors: tuple[str, ...] = ()
    """Plugins that refused, over all tries, sorted; empty when placed."""
    nominations: tuple[SeatedMember, ...] = ()
    """Of a refused gang for which room can be made: where each of its members will go."""
    next_start: int = 0
    """Where the next search of a sampling profile begins."""

    @property
    def placed(self) -> bool:
        """Whether enough members have a node."""
        return bool(self.seats)


def place(
    profile: Profile,
    wanted: Wanted,
    snapshot: Snapshot,
    *,
    start: int = 0,
    preempt: bool = True,
    preference: Preference | None = None,
    timed: bool = False,
) -> GangPlacement:
    """Place enough of the members, or none. Raises PluginError.

    `snapshot` counts none of them but those bound; the other arguments are those of `Profile.evaluate`.
    """
    engine = Engine(profile, wanted, snapshot, preference, timed)
    where = domains_for(engine)
    tries: list[_Try] = []
    best: tuple[int, _Try] | None = None
    for one in where.roomy:
        if best is not None and best[0] >= one.bound:
            break  # this domain cannot have more points, nor can those after it that have room enough
        attempt = _Try(engine, one.domain, start)
        attempt.run()
        if not attempt.enough:
            tries.append(attempt)
            continue
        points = one.score([seat.pod for seat in attempt.seats])
        if best is None or points > best[0]:
            best = points, attempt
    if best is not None:
        _, chosen = best
        return GangPlacement(tuple(chosen.seats), tuple(chosen.away), chosen.domain, next_start=chosen.start)
    return _refused(engine, tries, where.every if preempt else ())


class _Try:
    """Members one after the other, in one domain."""

    def __init__(self, engine: Engine, where: Domain | None, start: int = 0, *, evictor: int | None = None) -> None:
        """`evictor`: the priority below which pods are evicted; None = no pod is."""
        self._profile, self._wanted = engine.profile, engine.wanted
        # A preferred node must not cost other victims: preference is for nodes that are nearly as good.
        self._preference = engine.preference if evictor is None else None
        self._timed = engine.timed
        self.snapshot = engine.snapshot
        self.domain = where
        self.start = start
        self._evictor = evictor
        self.seats: list[SeatedMember] = []
        self.away: list[Unseated] = []

    @property
    def enough(self) -> bool:
        """Whether as many have a node as are needed together."""
        return len(self.seats) >= self._wanted.required

    def run(self) -> None:
        """Decide, until too many have no node; with victims, until enough have one."""
        spare = len(self._wanted.members) - self._wanted.required
        for pod in self._wanted.members:
            if len(self.away) > spare or (self._evictor is not None and self.enough):
                break
            self._decide(pod)

    def _decide(self, pod: Pod) -> None:
        # Evicted for the gang are only pods that every member may evict, so each asks with the least priority of all.
        asks = pod if self._evictor is None else replace(pod, priority=self._evictor)
        start = self.start
        evaluation = self._profile.evaluate(
            asks,
            self.snapshot,
            start=start,
            preempt=self._evictor is not None,
            preference=self._preference,
            domain=self.domain,
            timed=self._timed,
        )
        self.start = evaluation.next_start
        node = evaluation.node or evaluation.nominated_node
        if node is None:
            self.away.append(Unseated(pod, evaluation, len(self.seats)))
            return
        victims = () if evaluation.node is not None else evaluation.victims
        self.snapshot = seated(self.snapshot, pod, node, victims)
        self.seats.append(SeatedMember(pod, evaluation, node, start, victims))


def seated(snapshot: Snapshot, pod: Pod, node: str, victims: Iterable[Pod] = ()) -> Snapshot:
    """With the pod on the node, its volumes kept for it and its nomination spent; without the victims there."""
    row = snapshot.index[node]
    info = snapshot.rows[row].without_pods(victim.identity for victim in victims)
    after = snapshot.with_pods_changed({row: info.with_pod(pod)}).with_volumes_of(pod, node)
    promised = snapshot.nominated.get(pod.nominated_node_name, ())
    if pod.key not in {other.key for other in promised}:
        return after
    kept = tuple(other for other in promised if other.key != pod.key)
    nominated = {name: pods for name, pods in snapshot.nominated.items() if name != pod.nominated_node_name}
    return after.at(after.revision, nominated={**nominated, pod.nominated_node_name: kept} if kept else nominated)


# --- a gang that does not fit ---------------------------------------------------------------------


def _refused(engine: Engine, tries: Sequence[_Try], where: Sequence[Domain | None]) -> GangPlacement:
    """Why, and where (if anywhere) room can be made for all that it needs."""
    wanted = engine.wanted
    best = max(tries, key=lambda attempt: len(attempt.seats), default=None)
    if best is None or not best.away:  # no node has the label, or there are fewer members than are needed
        return GangPlacement(
            domain=best.domain if best is not None else None,
            message=_short(wanted, len(best.seats)) if best is not None else _nowhere(wanted),
            rejectors=(GANG_SCHEDULING,),
            next_start=best.start if best is not None else 0,
        )
    trial = _with_victims(engine, where)
    additions: tuple[str, ...] = ()
    if trial is not None and not trial.enough:
        additions = next((away.evaluation.post_filter_messages for away in trial.away), ())
    rejectors = {name for attempt in tries for away in attempt.away for name in away.evaluation.rejectors}
    return GangPlacement(
        away=tuple(best.away),
        domain=best.domain,
        message=" ".join([best.away[0].evaluation.message, _short(wanted, len(best.seats)), *additions]),
        rejectors=tuple(sorted(rejectors)),
        nominations=tuple(trial.seats) if trial is not None and trial.enough else (),
        next_start=best.start,
    )


def _with_victims(engine: Engine, where: Sequence[Domain | None]) -> _Try | None:
    """The first try that succeeds when pods are evicted, else the first; None when no pod may be evicted at all."""
    first: _Try | None = None
    if engine.profile.at.get("postFilter"):
        for one in where:
            trial = _Try(engine, one, evictor=engine.wanted.least_priority)
            trial.run()
            if trial.enough:
                return trial
            first = first or trial
    return first


def _nowhere(wanted: Wanted) -> str:
    labels = ("label " if len(wanted.topology_keys) == 1 else "labels ") + " and ".join(wanted.topology_keys)
    return f"gang needs {_needed(wanted)}, and {NO_DOMAIN} {labels}."


def _short(wanted: Wanted, fit: int) -> str:
    where = f" in one domain of {' and '.join(wanted.topology_keys)}" if wanted.topology_keys else ""
    return f"gang needs {_needed(wanted, more=bool(wanted.bound))}{where}, {fit} fit."


def _needed(wanted: Wanted, *, more: bool = False) -> str:
    members = "member placed" if wanted.required == 1 else "members placed together"
    return f"{wanted.required} {'more ' if more else ''}{members}"
