"""A recorded decision, decided again: on the state of its revision, by its profile, with what it saw beyond etcd.

Pure: who reads the state is `observe.past`, who finds the record and the profile `observe.deciding_again`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wharfinger.cache.cache import Cache
from wharfinger.contracts.computation import Computation
from wharfinger.contracts.eviction import Victim, digest
from wharfinger.contracts.scheduling import Placed, Refused
from wharfinger.errors import NotFound
from wharfinger.framework.domain import Domain, domain, terms_of
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.extender_verdicts import ExtenderVerdicts, PreemptionVerdicts
from wharfinger.framework.preferred_nodes import owned
from wharfinger.framework.profile import Profile
from wharfinger.framework.scoring import Preference
from wharfinger.framework.snapshot import Nominations, Snapshot
from wharfinger.model.pod import Pod, PodKey
from wharfinger.observe.past import PastState


@dataclass(frozen=True, slots=True)
class NodeVerdicts:
    """What every plugin says of one node."""

    node: str
    examined: bool
    """Whether the decision looked at it: sampling profiles look at some nodes only, a nomination at its own node."""
    feasible: bool
    refusals: Mapping[str, tuple[str, ...]]
    """Plugin -> reasons, of every plugin that refuses; all other filters let the pod pass, if they were asked."""
    scores: Mapping[str, int]
    """Score plugin -> weighted normalised score; empty where none was given."""
    total: int | None
    """None where no scores were given."""


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision in short."""

    node: str | None
    score: int | None
    """Total; None when at most one node was feasible."""
    nominated_node: str | None
    victims: tuple[str, ...]
    """`namespace/name`, sorted."""
    rejectors: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class Recomputation:
    """A decision, and what every node had to do with it."""

    pod: PodKey
    computation: Computation
    recorded: Decided
    recomputed: Decided
    same: bool
    """Whether node, score, rejectors and nomination are those of the record."""
    filters: tuple[str, ...]
    """Every filter plugin, in order."""
    skipped: tuple[str, ...]
    """Filter plugins that had nothing to look at for this pod."""
    refused_by: str
    """The plugin that refused the pod altogether before any filter ran; empty for none."""
    scorers: tuple[str, ...]
    """Every score plugin, in order."""
    nodes: tuple[NodeVerdicts, ...]
    """By name."""
    notes: tuple[str, ...]
    """What one should know of it, in sentences."""


def recompute(
    state: PastState,
    key: PodKey,
    outcome: Placed | Refused,
    profile: Profile,
    *,
    verdicts: ExtenderVerdicts | None = None,
    preemption: PreemptionVerdicts | None = None,
) -> Recomputation:
    """Decide again. Raises `NotFound` when the state does not hold the pod, `PluginError`.

    `verdicts` and `preemption`: what extenders were recorded to say; no extender is called.
    """
    computation = outcome.computation
    cache = _cache(state)
    pod = _subject(cache, state.revision, key, outcome)
    snapshot, notes = _snapshot(cache, pod, computation)
    gate = profile.gate(pod)
    recorded = _recorded(outcome)
    if not gate.ok:
        held = Decided(None, None, None, (), (gate.plugin,), gate.message)
        notes.append(f"{gate.plugin} held the pod back before any node was looked at")
        same = held.rejectors == recorded.rejectors
        return Recomputation(key, computation, recorded, held, same, (), (), gate.plugin, (), (), tuple(notes))
    preference = _preference(snapshot, computation, notes)
    evaluation = profile.evaluate(
        pod,
        snapshot,
        start=computation.start,
        preference=preference,
        domain=_domain(snapshot, computation),
        verdicts=verdicts,
        preemption=preemption,
    )
    extenders = tuple(one.extender for one in verdicts.verdicts) if verdicts is not None else ()
    scoring = tuple(one.extender for one in verdicts.verdicts if one.scores) if verdicts is not None else ()
    recomputed = _decided(evaluation)
    same = _same(outcome, recorded, recomputed) and _same_victims(outcome, evaluation)
    if evaluation.refused_before_filtering:
        notes.append(f"{evaluation.refused_before_filtering} refused the pod before any filter ran")
    if computation.gang and isinstance(outcome, Refused):
        notes.append(f"gang {computation.gang} was refused as a whole: this is for the pod alone, before other members")
    if not same and evaluation.node is not None and _after_filtering(outcome, profile):
        notes.append(f"{', '.join(recorded.rejectors)} refused the chosen node afterwards, at Reserve or Permit")
    return Recomputation(
        pod=key,
        computation=computation,
        recorded=recorded,
        recomputed=recomputed,
        same=same,
        filters=(*profile.at.get("filter", ()), *extenders),
        skipped=tuple(name for name in profile.at.get("filter", ()) if name in evaluation.state.skipped_filters),
        refused_by=evaluation.refused_before_filtering,
        scorers=(*profile.at.get("score", ()), *scoring),
        nodes=tuple(sorted(_verdicts(evaluation), key=lambda one: one.node)),
        notes=tuple(notes),
    )


def _cache(state: PastState) -> Cache:
    """The state as a worker has it; pods have the priorities that the classes of then gave them."""
    cache = Cache(clock=lambda: 0.0)
    for node in state.nodes:
        cache.set_node(node)
    for thing in state.surroundings:
        cache.set_surrounding(thing)
    for pod in state.pods:
        cache.set_pod(pod)
    cache.progress.advance(state.revision)
    return cache


def _subject(cache: Cache, revision: int, key: PodKey, outcome: Placed | Refused) -> Pod:
    pod = cache.pods.get(key)
    if pod is None or pod.create_revision != outcome.create_revision:
        raise NotFound(f"etcd held no pod {key} at revision {revision}: it was changed behind wharfinger's back")
    return pod


def _snapshot(cache: Cache, pod: Pod, computation: Computation) -> tuple[Snapshot, list[str]]:
    """What the deciding worker saw, and what of it can be told no more."""
    notes = []
    if computation.approximate:
        notes.append("the worker had assumed, or nominated, more pods than the record keeps: this is approximate")
    for assumed in computation.assumed:
        found = cache.pods.get(_key(assumed.pod))
        if found is None or found.create_revision != assumed.create_revision:
            notes.append(f"{assumed.pod}, which the worker had assumed on {assumed.node}, is not in etcd: approximate")
        elif found.identity != pod.identity:
            cache.assume(found, assumed.node)
    snapshot = cache.snapshot(excluding=pod.identity)
    if computation.approximate:
        return snapshot, notes
    return snapshot.at(snapshot.revision, nominated=_nominated(cache, pod, computation)), notes


def _nominated(cache: Cache, pod: Pod, computation: Computation) -> Nominations:
    """The nominations of the record, and the pod's own."""
    by_node: dict[str, list[Pod]] = {}
    placed = {(one.pod, one.create_revision) for one in computation.assumed}  # by the same cohort, since it began
    for one in computation.nominated:
        found = cache.pods.get(_key(one.pod))
        if (one.pod, one.create_revision) in placed:
            continue
        if found is not None and found.create_revision == one.create_revision:
            by_node.setdefault(one.node, []).append(found)
    if pod.pending and pod.nominated_node_name:
        by_node.setdefault(pod.nominated_node_name, []).append(pod)
    ordered = sorted(by_node.items())
    return {node: tuple(sorted(pods, key=lambda one: (-one.priority, one.key))) for node, pods in ordered}


def _preference(snapshot: Snapshot, computation: Computation, notes: list[str]) -> Preference | None:
    """The nodes that the deciding worker preferred."""
    own = computation.own_nodes
    if own is None:
        return None
    if not own.members:
        notes.append("more workers shared the nodes than the record names: this is approximate")
        return None
    return Preference(owned(snapshot.node_columns.names, own.members, own.me), own.margin)


def _verdicts(evaluation: Evaluation) -> Iterator[NodeVerdicts]:
    refusals = evaluation.verdicts()
    ranking = {one.node: one for one in evaluation.ranking(evaluation.feasible_count)}
    feasible = frozenset(evaluation.feasible)
    examined = evaluation.examined
    for row, name in enumerate(evaluation.snapshot.names):
        ranked = ranking.get(name)
        yield NodeVerdicts(
            node=name,
            examined=examined is None or bool(examined[row]),
            feasible=name in feasible,
            refusals={plugin: status.reasons for plugin, status in refusals.get(name, {}).items()},
            scores=dict(ranked.plugins) if ranked else {},
            total=ranked.total if ranked else None,
        )


def _recorded(outcome: Placed | Refused) -> Decided:
    if isinstance(outcome, Placed):
        return Decided(outcome.node, outcome.score, None, (), (), "")
    victims = tuple(sorted(victim.pod for victim in outcome.victims))
    return Decided(None, None, outcome.nominated_node or None, victims, outcome.rejectors, outcome.message)


def _decided(evaluation: Evaluation) -> Decided:
    best = evaluation.ranking(1)
    return Decided(
        evaluation.node,
        best[0].total if best else None,
        evaluation.nominated_node,
        tuple(sorted(str(victim.key) for victim in evaluation.victims)),
        evaluation.rejectors,
        evaluation.message,
    )


def _domain(snapshot: Snapshot, computation: Computation) -> Domain | None:
    """The nodes among which the pod's gang was placed."""
    return domain(snapshot, terms_of(computation.domain)) if computation.domain else None


def _same(outcome: Placed | Refused, recorded: Decided, again: Decided) -> bool:
    if isinstance(outcome, Refused) and outcome.computation.gang:
        return True  # refused as a whole: the pod alone may well have fitted
    if (recorded.node, recorded.score, recorded.rejectors) != (again.node, again.score, again.rejectors):
        return False
    if isinstance(outcome, Placed):
        return True
    if outcome.only_assumed or (outcome.nominated_node and not outcome.victims):
        return True  # withheld on purpose, or kept while an earlier attempt's victims leave
    return recorded.nominated_node == again.nominated_node


def _same_victims(outcome: Placed | Refused, evaluation: Evaluation) -> bool:
    if isinstance(outcome, Placed) or not outcome.victims:
        return True
    victims = [
        Victim(pod=str(victim.key), create_revision=victim.create_revision, uid=victim.uid)
        for victim in evaluation.victims
    ]
    recorded = outcome.victims_digest or digest(outcome.victims)
    return digest(victims) == recorded


def _after_filtering(outcome: Placed | Refused, profile: Profile) -> bool:
    later = {*profile.at.get("reserve", ()), *profile.at.get("permit", ())}
    return isinstance(outcome, Refused) and bool(outcome.rejectors) and later.issuperset(outcome.rejectors)


def _key(text: str) -> PodKey:
    namespace, _, name = text.partition("/")
    return PodKey(namespace, name)
